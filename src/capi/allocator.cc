#include "capi/allocator.h"

#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "capi/guard.h"
#include "capi/key_values.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

// The allocators this library hands out differ in what they say of themselves only.
struct CpuAllocator : OrtAllocator {
  OrtMemoryInfo description;
};

void* cpu_alloc(OrtAllocator*, size_t size) noexcept {
  if (size == 0 || size > SIZE_MAX - kAlignment) return nullptr;
  return std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
}

void cpu_free(OrtAllocator*, void* p) noexcept { std::free(p); }

const OrtMemoryInfo* cpu_info(const OrtAllocator* allocator) noexcept {
  return &static_cast<const CpuAllocator*>(allocator)->description;
}

// Nothing is counted: the list is empty.
Status cpu_stats(const OrtAllocator*, OrtKeyValuePairs** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtKeyValuePairs;
  return {};
}

CpuAllocator* make_allocator(OrtMemoryInfo description) {
  auto* a = new CpuAllocator{};
  a->version = ORT_API_VERSION;
  a->Alloc = cpu_alloc;
  a->Free = cpu_free;
  a->Info = cpu_info;
  a->Reserve = cpu_alloc;
  a->GetStats = slot<cpu_stats>;
  a->description = std::move(description);
  return a;
}

struct Device {
  std::string_view name;
  OrtMemoryInfoDeviceType type;
  OrtDeviceMemoryType mem_type;
  uint32_t vendor;
};
// Names of memory that ONNX Runtime's clients use, some of them at their start, whatever the machine has.
constexpr Device kDevices[] = {
    {"Cpu", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"Cuda", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x10de},
    {"CudaPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x10de},
    {"Hip", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x1002},
    {"HipPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x1002},
    {"DML", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x1414},
    {"WebGPU_Buffer", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebGPU_Buf", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebNN_Tensor", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebNN_Ten", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"OpenVINO_CPU", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_DEFAULT, 0x8086},
    {"OpenVINO_GPU", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x8086},
    {"OpenVINO_RT_NPU", OrtMemoryInfoDeviceType_NPU, OrtDeviceMemoryType_DEFAULT, 0x8086},
    {"QnnHtpShared", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x5143},
    {"Cann", OrtMemoryInfoDeviceType_NPU, OrtDeviceMemoryType_DEFAULT, 0},
};

Status create_memory_info(const char* name, OrtAllocatorType type, int id, OrtMemType mem_type, OrtMemoryInfo** out) {
  TRY(not_null({{"name", name}, {"out", out}}));
  for (const Device& d : kDevices)
    if (d.name == name) {
      *out = new OrtMemoryInfo{name, type, id, mem_type, d.type, d.mem_type, d.vendor, 0};
      return {};
    }
  return invalid("memory name {} is not known; CreateMemoryInfo_V2 takes any name", quote(name));
}

Status create_memory_info_v2(const char* name, OrtMemoryInfoDeviceType device_type, uint32_t vendor_id,
                             int32_t device_id, OrtDeviceMemoryType mem_type, size_t alignment, OrtAllocatorType type,
                             OrtMemoryInfo** out) {
  TRY(not_null({{"name", name}, {"out", out}}));
  *out = new OrtMemoryInfo{name, type, device_id, OrtMemTypeDefault, device_type, mem_type, vendor_id, alignment};
  return {};
}

Status create_cpu_memory_info(OrtAllocatorType type, OrtMemType mem_type, OrtMemoryInfo** out) {
  return create_memory_info("Cpu", type, 0, mem_type, out);
}

Status compare_memory_info(const OrtMemoryInfo* a, const OrtMemoryInfo* b, int* out) {
  TRY(not_null({{"info1", a}, {"info2", b}, {"out", out}}));
  *out = *a == *b ? 0 : -1;
  return {};
}

Status memory_info_name(const OrtMemoryInfo* info, const char** out) {
  TRY(not_null({{"ptr", info}, {"out", out}}));
  *out = info->name.c_str();
  return {};
}

// A getter of one member.
template <auto Member, class T>
Status memory_info_get(const OrtMemoryInfo* info, T* out) {
  TRY(not_null({{"ptr", info}, {"out", out}}));
  *out = info->*Member;
  return {};
}

void memory_info_device_type(const OrtMemoryInfo* info, OrtMemoryInfoDeviceType* out) noexcept {
  if (out) *out = info ? info->device_type : OrtMemoryInfoDeviceType_CPU;
}
OrtDeviceMemoryType memory_info_device_mem_type(const OrtMemoryInfo* info) noexcept {
  return info ? info->device_mem_type : OrtDeviceMemoryType_DEFAULT;
}
uint32_t memory_info_vendor_id(const OrtMemoryInfo* info) noexcept { return info ? info->vendor_id : 0; }

void release_memory_info(OrtMemoryInfo* info) { delete info; }

Status allocator_alloc(OrtAllocator* allocator, size_t size, void** out) {
  TRY(not_null({{"ort_allocator", allocator}, {"out", out}}));
  TRY_ASSIGN(memory, allocate_with(allocator, size));
  *out = memory;
  return {};
}

Status allocator_free(OrtAllocator* allocator, void* p) {
  TRY(not_null({{"ort_allocator", allocator}}));
  if (p) allocator->Free(allocator, p);
  return {};
}

Status allocator_info(const OrtAllocator* allocator, const OrtMemoryInfo** out) {
  TRY(not_null({{"ort_allocator", allocator}, {"out", out}}));
  *out = allocator->Info(allocator);
  return {};
}

Status allocator_stats(const OrtAllocator* allocator, OrtKeyValuePairs** out) {
  TRY(not_null({{"ort_allocator", allocator}, {"out", out}}));
  constexpr uint32_t kSince = 23;
  if (allocator->version < kSince || !allocator->GetStats)
    return not_implemented("this allocator does not offer statistics");
  return from_ort(allocator->GetStats(allocator, out));
}

Status get_default_allocator(OrtAllocator** out) {
  TRY(not_null({{"out", out}}));
  *out = default_allocator();
  return {};
}

Status create_allocator(const OrtSession* session, const OrtMemoryInfo* info, OrtAllocator** out) {
  TRY(not_null({{"session", session}, {"mem_info", info}, {"out", out}}));
  if (!is_host_memory(*info)) return invalid("no allocator for {} memory; this session has Cpu", quote(info->name));
  *out = make_allocator(*info);
  return {};
}

void release_allocator(OrtAllocator* allocator) {
  if (allocator != default_allocator()) delete static_cast<CpuAllocator*>(allocator);
}

}  // namespace

const OrtMemoryInfo& cpu_memory_info() { return *default_allocator()->Info(default_allocator()); }

// Leaked: clients may free memory with it while the process ends.
OrtAllocator* default_allocator() {
  static OrtAllocator* const allocator = make_allocator({.name = "Cpu"});
  return allocator;
}

bool is_host_memory(const OrtMemoryInfo& info) {
  return info.device_type == OrtMemoryInfoDeviceType_CPU || info.device_mem_type == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

Result<void*> allocate_with(OrtAllocator* allocator, size_t size) {
  void* memory = allocator->Alloc(allocator, size);
  if (!memory && size) return error(Code::runtime_exception, "out of memory: the allocator has no {} bytes", size);
  return memory;
}

Status give_text(OrtAllocator* allocator, std::string_view text, char** out) {
  TRY_ASSIGN(memory, allocate_with(allocator, text.size() + 1));
  *out = static_cast<char*>(memory);
  if (!text.empty()) std::memcpy(*out, text.data(), text.size());
  (*out)[text.size()] = '\0';
  return {};
}

void fill_allocator(OrtApi& api) {
  api.CreateMemoryInfo = slot<create_memory_info>;
  api.CreateMemoryInfo_V2 = slot<create_memory_info_v2>;
  api.CreateCpuMemoryInfo = slot<create_cpu_memory_info>;
  api.CompareMemoryInfo = slot<compare_memory_info>;
  api.MemoryInfoGetName = slot<memory_info_name>;
  api.MemoryInfoGetId = slot<memory_info_get<&OrtMemoryInfo::id, int>>;
  api.MemoryInfoGetMemType = slot<memory_info_get<&OrtMemoryInfo::mem_type, OrtMemType>>;
  api.MemoryInfoGetType = slot<memory_info_get<&OrtMemoryInfo::allocator_type, OrtAllocatorType>>;
  api.MemoryInfoGetDeviceType = memory_info_device_type;
  api.MemoryInfoGetDeviceMemType = memory_info_device_mem_type;
  api.MemoryInfoGetVendorId = memory_info_vendor_id;
  api.ReleaseMemoryInfo = release_memory_info;
  api.AllocatorAlloc = slot<allocator_alloc>;
  api.AllocatorFree = slot<allocator_free>;
  api.AllocatorGetInfo = slot<allocator_info>;
  api.AllocatorGetStats = slot<allocator_stats>;
  api.GetAllocatorWithDefaultOptions = slot<get_default_allocator>;
  api.CreateAllocator = slot<create_allocator>;
  api.ReleaseAllocator = release_allocator;
}

}  // namespace tessera::capi
