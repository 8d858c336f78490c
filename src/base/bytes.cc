#include "base/bytes.h"

#include <cstdlib>

namespace tessera {

Result<std::shared_ptr<Bytes>> allocate_bytes(size_t size) {
  const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* data = rounded >= size ? std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment) : nullptr;
  if (!data) return error(Code::fail, "out of memory: could not allocate {} bytes", size);
  return std::make_shared<Bytes>(
      Bytes::Origin::owned, data, size, [](void* p, size_t, void*) { std::free(p); }, nullptr);
}

std::shared_ptr<Bytes> borrow_bytes(const void* data, size_t size, std::string label) {
  return std::make_shared<Bytes>(Bytes::Origin::borrowed, const_cast<void*>(data), size, nullptr, nullptr,
                                 std::move(label));
}

}  // namespace tessera
