// Bytes: a range of memory and the knowledge of how to give it back. Shared by reference count; whoever holds the
// pointer may read. Where the bytes come from is part of the type's state, never a pointer read from a file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace tessera {

class Bytes {
 public:
  enum class Origin : uint8_t {
    owned,     // heap memory of ours, 64-byte aligned
    mapped,    // a read-only file mapping
    borrowed,  // the caller's memory; the caller promised it outlives us
    passing,   // the caller's memory, there only while a session is created
  };
  using Release = void(void* data, size_t size, void* context);

  Bytes(Origin origin, void* data, size_t size, Release* release, void* context, std::string label = {})
      : data_(static_cast<std::byte*>(data)),
        size_(size),
        release_(release),
        context_(context),
        origin_(origin),
        label_(std::move(label)) {}
  ~Bytes() {
    if (release_) release_(data_, size_, context_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  Origin origin() const { return origin_; }
  void* context() const { return context_; }  // of whoever made them
  // The file name the bytes came from, or empty.
  const std::string& label() const { return label_; }
  // When the mapped file was last written, in ns since 1970; 0 for other bytes.
  int64_t written_at() const { return written_at_; }
  void set_written_at(int64_t ns) { written_at_ = ns; }

 private:
  std::byte* data_;
  size_t size_;
  Release* release_;
  void* context_;
  Origin origin_;
  std::string label_;
  int64_t written_at_ = 0;
};

using BytesPtr = std::shared_ptr<const Bytes>;

inline constexpr size_t kAlignment = 64;

// Uninitialised memory aligned to kAlignment; an error (never an exception) when there is none.
Result<std::shared_ptr<Bytes>> allocate_bytes(size_t size);
std::shared_ptr<Bytes> borrow_bytes(const void* data, size_t size, std::string label = {});

// A byte range inside shared Bytes.
struct ByteRange {
  BytesPtr source;
  uint64_t offset = 0;
  uint64_t length = 0;
  const std::byte* data() const { return source ? source->data() + offset : nullptr; }
};

}  // namespace tessera
