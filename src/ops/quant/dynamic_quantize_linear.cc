// DynamicQuantizeLinear — quantizes to uint8 with the scale and zero point that the data's range asks for.
#include <cmath>

#include "kernels/quantize.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

void types(TypeCall& c) {
  for (size_t o = 0; o < c.out.size(); ++o) c.out[o] = {Kind::tensor, o == 1 ? DType::f32 : DType::u8, Kind::tensor};
}

template <class D>
Status shape(const void*, ShapeCall<D>& c) {
  for (int o = 0; o < c.outputs(); ++o) TRY(o == 0 ? c.set(o, c.dims(0)) : c.set(o, DimVec<D>{}));
  return {};
}

// The range of the data, widened to hold zero. NaNs do not count.
struct Range {
  float low = 0, high = 0;
};
Range range_of(const Call& call, const float* x, int64_t n) {
  constexpr int64_t kPiece = 1 << 14;
  std::vector<Range> pieces(static_cast<size_t>(ceil_div(n, kPiece)));
  for_pieces(call, n, [&](int64_t begin, int64_t count) {
    Range r;
    float_range(call.target(), x + begin, count, &r.low, &r.high);
    pieces[static_cast<size_t>(begin / kPiece)] = r;
  });
  Range all;
  for (const Range& r : pieces) all = {std::min(all.low, r.low), std::max(all.high, r.high)};
  return all;
}

Status compute(const void*, Call& call) {
  const float* x = call.in<float>(0);
  const int64_t n = call.count(0);
  const Range range = range_of(call, x, n);
  const float scale = range.high == range.low ? 1.0f / 255 : (range.high - range.low) / 255;
  const float zero = std::nearbyint(std::clamp(-range.low / scale, 0.0f, 255.0f));
  if (float* s = call.out<float>(1)) *s = scale;
  if (uint8_t* z = call.out<uint8_t>(2)) *z = static_cast<uint8_t>(zero);
  uint8_t* y = call.out<uint8_t>(0);
  if (!y) return {};
  const ByteScale to{scale, zero, false};
  for_pieces(call, n,
             [&](int64_t begin, int64_t count) { quantize_bytes(call.target(), to, x + begin, count, y + begin); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(1), set_of(DType::f32)},
                               {out_arg(0) | out_arg(2), set_of(DType::u8)}};
constexpr Kernel kKernels[] = {{kTypes, compute}};
constexpr int16_t kVersions[] = {11};

}  // namespace

extern constexpr Op kDynamicQuantizeLinear{.domain = "",
                                           .name = "DynamicQuantizeLinear",
                                           .versions = kVersions,
                                           .types = types,
                                           .shape = shape<int64_t>,
                                           .kernels = kKernels};
extern constexpr OpInference kDynamicQuantizeLinearInference{.shape = shape<Dim>};

}  // namespace tessera
