// Max, Min, Sum, Mean: any number of inputs with broadcasting, taken together from the left.
#include <type_traits>

#include "kernels/vmath.h"
#include "ops/math/binary.h"

namespace tessera {
namespace {

struct MaxOp {
  static constexpr Binary kVector = Binary::max;
  template <class T>
  static T apply(T a, T b) {
    return b != b || b > a ? b : a;
  }
};
struct MinOp {
  static constexpr Binary kVector = Binary::min;
  template <class T>
  static T apply(T a, T b) {
    return b != b || b < a ? b : a;
  }
};
struct SumOp {
  static constexpr Binary kVector = Binary::add;
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct MeanOp : SumOp {};

template <class O, class T>
void combine(Target target, const T* a, int64_t da, const T* b, int64_t db, T* y, int64_t n) {
  if constexpr (std::is_same_v<T, float>)
    binary_f32(target, O::kVector, a, da, b, db, y, n);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = O::apply(a[i * da], b[i * db]);
}

// y = a with broadcasting, or y = op(a, b); a may be y itself.
template <class O, class T>
void fold(Call& call, const T* a, const Shape& a_shape, int b_input, T* y) {
  const std::span<const int64_t> inputs[] = {a_shape.dims(), call.shape(b_input).dims()};
  const T* b = call.in<T>(b_input);
  BroadcastRows(call.out_shape(0), inputs).run(call.threads(), [&](const BroadcastRows::Row& r) {
    combine<O>(call.target(), a + r.in[0], r.step[0], b + r.in[1], r.step[1], y + r.out, r.n);
  });
}

template <class O, class T>
Status compute(Call& call) {
  T* y = call.out<T>(0);
  const int64_t n = call.out_count(0);
  if (call.inputs() == 1) {
    if (y != call.in<T>(0)) std::copy_n(call.in<T>(0), n, y);
    return {};
  }
  fold<O>(call, call.in<T>(0), call.shape(0), 1, y);
  for (int i = 2; i < call.inputs(); ++i) {
    if (call.cancelled()) return call.stopped();
    fold<O>(call, static_cast<const T*>(y), call.out_shape(0), i, y);
  }
  if constexpr (std::is_same_v<O, MeanOp>) {
    const T count = static_cast<T>(call.inputs());
    for_pieces(call, n, [&](int64_t begin, int64_t piece) {
      for (int64_t i = begin; i < begin + piece; ++i) y[i] /= count;
    });
  }
  return {};
}

template <class O, class... T>
constexpr Kernel kKernels[] = {{kAllSame<T>, compute_plain<compute<O, T>>}...};
template <class O>
constexpr std::span<const Kernel> kReal = kKernels<O, float, double>;
template <class O>
constexpr std::span<const Kernel> kAll = kKernels<O, float, double, int32_t, int64_t, uint32_t, uint64_t>;

constexpr int16_t kOrderVersions[] = {1, 6, 8, 12, 13};
constexpr int16_t kSumVersions[] = {1, 6, 8, 13};

constexpr Op variadic(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .shape = shape_broadcast<int64_t>,
          .kernels = kernels,
          .inplace = in_arg(0) | in_arg(1)};
}

template <Dim (*F)(const Dim&, const Dim&)>
Status infer_order(const void* params, ShapeCall<Dim>& c) {
  TRY(shape_broadcast(params, c));
  if (c.inputs() == 2) infer_binary_content(c, [](const Dim& a, const Dim& b) { return std::optional<Dim>(F(a, b)); });
  return {};
}
Dim larger(const Dim& a, const Dim& b) { return dim_max(a, b); }
Dim smaller(const Dim& a, const Dim& b) { return dim_min(a, b); }

}  // namespace

extern constexpr Op kMax = variadic("Max", kOrderVersions, kAll<MaxOp>);
extern constexpr Op kMin = variadic("Min", kOrderVersions, kAll<MinOp>);
extern constexpr Op kSum = variadic("Sum", kSumVersions, kReal<SumOp>);
extern constexpr Op kMean = variadic("Mean", kSumVersions, kReal<MeanOp>);
extern constexpr OpInference kMaxInference{.shape = infer_order<larger>};
extern constexpr OpInference kMinInference{.shape = infer_order<smaller>};
extern constexpr OpInference kSumInference{.shape = shape_broadcast<Dim>};
extern constexpr OpInference kMeanInference{.shape = shape_broadcast<Dim>};

}  // namespace tessera
