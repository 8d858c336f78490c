// Where memory is (OrtMemoryInfo) and who gives it (OrtAllocator). This library knows host memory only; descriptions of
// other devices can be made and compared, but nothing can be allocated or read there.
#pragma once
#include <string>
#include <string_view>

#include "base/status.h"
#include "tessera/c_api.h"

struct OrtMemoryInfo {
  std::string name;
  OrtAllocatorType allocator_type = OrtDeviceAllocator;
  int id = 0;
  OrtMemType mem_type = OrtMemTypeDefault;
  OrtMemoryInfoDeviceType device_type = OrtMemoryInfoDeviceType_CPU;
  OrtDeviceMemoryType device_mem_type = OrtDeviceMemoryType_DEFAULT;
  uint32_t vendor_id = 0;
  size_t alignment = 0;

  friend bool operator==(const OrtMemoryInfo&, const OrtMemoryInfo&) = default;
};

namespace tessera::capi {

// Of plain host memory; lives as long as the process.
const OrtMemoryInfo& cpu_memory_info();

// The allocator every client may use; never released.
OrtAllocator* default_allocator();

// True if the host can read the memory that `info` describes.
bool is_host_memory(const OrtMemoryInfo& info);

// Memory of the client's allocator, which is not null; an error if it gives none. Zero bytes give null.
Result<void*> allocate_with(OrtAllocator* allocator, size_t size);

// A copy of `text` with a zero byte at its end, in memory of the client's allocator.
Status give_text(OrtAllocator* allocator, std::string_view text, char** out);

}  // namespace tessera::capi
