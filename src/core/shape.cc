#include "core/shape.h"

namespace tessera {

Result<Shape> Shape::checked(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) return invalid("a shape has rank {}, at most {} are supported", dims.size(), kMaxRank);
  // Zeros last: [2^40, 2^40, 0] is as absurd as [2^40, 2^40].
  int64_t product = 1;
  for (const int64_t d : dims) {
    if (d < 0) return invalid("shape {} has a negative dimension", dims);
    if (d > 0 && !checked_mul(product, d, &product))
      return invalid("shape {} has more elements than 63 bits can count", dims);
  }
  return Shape(dims);
}

std::optional<int64_t> bytes_for(DType dtype, int64_t count) {
  int64_t bits;
  if (!checked_mul(count, bits_of(dtype), &bits) || !checked_add(bits, 7, &bits)) return {};
  return bits / 8;
}

}  // namespace tessera
