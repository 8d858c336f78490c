// NonZero — the indexes of the elements that are not zero (false, empty), one column each, in row-major order.
#include <complex>

#include "ops/movement.h"

namespace tessera {
namespace {

Status infer_shape(const void*, ShapeCall<Dim>& c) { return c.set(0, DimVec<Dim>{Dim(c.rank(0)), c.fresh()}); }

template <class T>
bool set(const T& v) {
  return v != T{};
}
// Everything but the sign.
bool set(const Float16& v) { return v.bits & 0x7fff; }
bool set(const BFloat16& v) { return v.bits & 0x7fff; }

template <class T>
Status compute(Call& call) {
  const T* x = call.in<T>(0);
  const Shape& shape = call.shape(0);
  const int64_t n = shape.count(), pieces = ceil_div(n, int64_t{1} << 14);
  // Counted piece by piece, so that each piece knows where its columns start.
  std::vector<int64_t> first(static_cast<size_t>(pieces) + 1, 0);
  const auto each_set = [&](int64_t piece, auto&& fn) {
    for (int64_t i = piece << 14; i < std::min(n, (piece + 1) << 14); ++i)
      if (set(x[i])) fn(i);
  };
  call.parallel(
      pieces, [&](int64_t piece, int) { each_set(piece, [&](int64_t) { ++first[static_cast<size_t>(piece) + 1]; }); });
  for (size_t p = 1; p < first.size(); ++p) first[p] += first[p - 1];
  const int64_t found = first.back();
  const int rank = shape.rank();
  const int64_t dims[] = {rank, found};
  TRY_ASSIGN(out, Shape::checked(dims));
  TRY_ASSIGN(y, call.allocate<int64_t>(0, std::move(out)));
  call.parallel(pieces, [&](int64_t piece, int) {
    int64_t column = first[static_cast<size_t>(piece)];
    each_set(piece, [&](int64_t i) {
      for (int k = rank; k-- > 0; i /= shape[k]) y[k * found + column] = i % shape[k];
      ++column;
    });
  });
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0), set_of(dtype_of<T>)}, {out_arg(0), set_of(DType::i64)}};
template <class T>
constexpr Kernel kernel{kTypes<T>, compute_plain<compute<T>>};
constexpr Kernel kKernels[] = {kernel<float>,
                               kernel<double>,
                               kernel<bool>,
                               kernel<int64_t>,
                               kernel<int32_t>,
                               kernel<int16_t>,
                               kernel<int8_t>,
                               kernel<uint64_t>,
                               kernel<uint32_t>,
                               kernel<uint16_t>,
                               kernel<uint8_t>,
                               kernel<Float16>,
                               kernel<BFloat16>,
                               kernel<std::string>,
                               kernel<std::complex<float>>,
                               kernel<std::complex<double>>};
constexpr int16_t kVersions[] = {9, 13};

}  // namespace

extern constexpr Op kNonZero{
    .domain = "", .name = "NonZero", .versions = kVersions, .types = type_always<DType::i64>, .kernels = kKernels};
extern constexpr OpInference kNonZeroInference{.shape = infer_shape};

}  // namespace tessera
