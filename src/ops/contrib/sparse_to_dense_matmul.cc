// SparseToDenseMatMul — a product of a sparse matrix with a dense one. A sparse constant of a model is dense by the
// time it gets here, so dense matrices are taken too.
#include "core/convert.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1), 2};

struct Params {
  float alpha = 1;
  bool trans_a = false, trans_b = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("alpha", p.alpha);
  a.get("transA", p.trans_a);
  a.get("transB", p.trans_b);
  return {};
}

// Calls fn(row, column, value) for what A holds; a matrix of `rows` and `columns`.
template <class T, class F>
Status each_entry(Call& call, const SparseTensor* sparse, int64_t rows, int64_t columns, F&& fn) {
  if (!sparse) {
    const T* a = call.in<T>(0);
    for (int64_t i = 0; i < rows * columns; ++i)
      if (a[i] != T{0}) fn(i / columns, i % columns, a[i]);
    return {};
  }
  const int64_t count = sparse->values.count(), per_entry = count ? sparse->indices.count() / count : 2;
  if (sparse->values.dtype() != dtype_of<T> || sparse->indices.dtype() != DType::i64 || per_entry < 1 ||
      per_entry > 2 || sparse->indices.count() != per_entry * count)
    return call.refuse(0, "{} with a place for each", name_of(dtype_of<T>));
  const T* values = static_cast<const T*>(sparse->values.data());
  const auto* places = static_cast<const int64_t*>(sparse->indices.data());
  for (int64_t i = 0; i < count; ++i) {
    const bool flat = per_entry == 1;
    const int64_t at = places[i * per_entry];
    if (at < 0 || (flat && at >= rows * columns)) return call.refuse(0, "places inside of it (entry {})", i);
    const int64_t r = flat ? at / columns : at, c = flat ? at % columns : places[2 * i + 1];
    if (r >= rows || c < 0 || c >= columns) return call.refuse(0, "places inside of it (entry {})", i);
    fn(r, c, values[i]);
  }
  return {};
}

template <class T>
Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(a, call.value(0));
  const SparseTensor* sparse = a.sparse();
  if (!sparse && (!a.tensor() || a.tensor()->dtype() != dtype_of<T>))
    return call.refuse(0, "a matrix of {}", name_of(dtype_of<T>));
  const Shape &left = sparse ? sparse->shape : a.tensor()->shape(), &right = call.shape(1);
  if (left.rank() != 2) return call.refuse(0, "two dimensions");
  if (right.rank() != 2 || right[p.trans_b] != left[!p.trans_a])
    return call.refuse(1, "a matrix that shares the inner size {}", left[!p.trans_a]);
  const int64_t m = left[p.trans_a], n = right[!p.trans_b];
  TRY_ASSIGN(shape, Shape::checked(std::array{m, n}));
  TRY_ASSIGN(y, call.allocate<T>(0, std::move(shape)));
  std::fill_n(y, m * n, T{0});
  const T* b = call.in<T>(1);
  const int64_t row_step = p.trans_b ? 1 : n, column_step = p.trans_b ? right[1] : 1;
  using Sum = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  TRY(each_entry<T>(call, sparse, left[0], left[1], [&](int64_t r, int64_t c, T v) {
    if (p.trans_a) std::swap(r, c);
    T* out = y + r * n;
    for (int64_t j = 0; j < n; ++j)
      out[j] = static_cast<T>(static_cast<Sum>(out[j]) +
                              static_cast<Sum>(v) * static_cast<Sum>(b[c * row_step + j * column_step]));
  }));
  for (int64_t i = 0; p.alpha != 1 && i < m * n; ++i) {
    const double scaled = static_cast<double>(y[i]) * static_cast<double>(p.alpha);
    if constexpr (std::is_integral_v<T>)
      y[i] = to_integer<T>(scaled);
    else
      y[i] = static_cast<T>(scaled);
  }
  return {};
}

Status infer(const ir::Node&, const void*, DimPool& dims, std::span<const Fact* const>, std::span<Fact> out) {
  out[0].shape = std::vector<Dim>{dims.fresh(), dims.fresh()};
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(1) | out_arg(0), set_of(dtype_of<T>)}};
template <class T>
constexpr Kernel kernel{kTypes<T>, compute_with<Params, compute<T>>};
constexpr Kernel kKernels[] = {kernel<float>,   kernel<double>,   kernel<int32_t>,
                               kernel<int64_t>, kernel<uint32_t>, kernel<uint64_t>};

}  // namespace

extern constexpr Op kMicrosoftSparseToDenseMatMul{.domain = kDomain,
                                                  .name = "SparseToDenseMatMul",
                                                  .versions = kVersions,
                                                  .parse = parse_checked<Params, kArity, parse>,
                                                  .types = type_of_input<1>,
                                                  .kernels = kKernels};
extern constexpr OpInference kMicrosoftSparseToDenseMatMulInference{.infer = infer};

}  // namespace tessera
