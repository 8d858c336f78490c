#include "core/tensor.h"

#include <new>

namespace tessera {

Result<std::shared_ptr<Bytes>> allocate_strings(int64_t count) {
  int64_t size;
  if (!checked_mul(count, sizeof(std::string), &size))
    return error(Code::fail, "{} strings do not fit in memory", count);
  auto* data = new (std::nothrow) std::string[static_cast<size_t>(count)];
  if (!data) return error(Code::fail, "out of memory: could not allocate {} strings", count);
  return std::make_shared<Bytes>(
      Bytes::Origin::owned, data, static_cast<size_t>(size),
      [](void* p, size_t, void*) { delete[] static_cast<std::string*>(p); }, nullptr);
}

Result<Tensor> Tensor::allocate(DType dtype, Shape shape, int64_t capacity) {
  const int64_t count = std::max(shape.count(), capacity);
  if (dtype == DType::string) {
    TRY_ASSIGN(storage, allocate_strings(count));
    return Tensor(dtype, std::move(shape), std::move(storage));
  }
  const auto size = bytes_for(dtype, count);
  if (!size) return error(Code::fail, "a {} tensor of shape {} does not fit in memory", name_of(dtype), shape.dims());
  TRY_ASSIGN(storage, allocate_bytes(static_cast<size_t>(*size)));
  return Tensor(dtype, std::move(shape), std::move(storage));
}

}  // namespace tessera
