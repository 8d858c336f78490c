// CumSum, CumProd: running sums and products along an axis.
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  bool exclusive = false;
  bool reverse = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("exclusive", p.exclusive);
  a.get("reverse", p.reverse);
  return {};
}

template <class D>
Status shape(ShapeCall<D>& c) {
  const D n = c.count(1);
  if (c.rank(1) > 1 || (known(n) && number(n) != 1)) return c.refuse(1, "one axis");
  return c.set(0, c.dims(0));
}

// Floats are summed in double; integers wrap.
template <class T>
using Running = std::conditional_t<std::is_floating_point_v<T>, double,
                                   std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>>;
struct Plus {
  static constexpr int kStart = 0;
  template <class A>
  static A apply(A a, A b) {
    return a + b;
  }
};
struct Times {
  static constexpr int kStart = 1;
  template <class A>
  static A apply(A a, A b) {
    return a * b;
  }
};

template <class O, class T>
Status compute(const Params& p, Call& call) {
  using A = Running<T>;
  constexpr int64_t kColumns = 256;
  const auto axis = normalize_axis(call.integer(1, 0), call.shape(0).rank());
  if (!axis) return call.refuse(1, "an axis of input 0, of rank {}", call.shape(0).rank());
  const Slices s = call.shape(0).around(*axis);
  const int64_t blocks = ceil_div(s.inner, kColumns), tasks = s.outer * blocks;
  if (tasks * s.length == 0) return {};
  const int64_t each = std::max<int64_t>(1, (1 << 14) / (s.length * std::min(s.inner, kColumns)));
  call.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
    for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call.cancelled(); ++t) {
      const int64_t column = t % blocks * kColumns, n = std::min(kColumns, s.inner - column);
      const int64_t first = t / blocks * s.length * s.inner + column;
      const T* x = call.in<T>(0) + first;
      T* y = call.out<T>(0) + first;
      A running[kColumns];
      std::fill_n(running, n, A(O::kStart));
      for (int64_t k = 0; k < s.length; ++k) {
        const int64_t row = (p.reverse ? s.length - 1 - k : k) * s.inner;
        for (int64_t j = 0; j < n; ++j) {
          const A next = O::apply(running[j], static_cast<A>(x[row + j]));
          y[row + j] = static_cast<T>(p.exclusive ? running[j] : next);
          running[j] = next;
        }
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>}, {in_arg(1), kIndexTypes}};
template <class O, class T>
constexpr Kernel kernel{kTypes<T>, compute_with<Params, compute<O, T>>};
template <class O>
constexpr Kernel kKernels[] = {kernel<O, float>,   kernel<O, double>,   kernel<O, int32_t>,
                               kernel<O, int64_t>, kernel<O, uint32_t>, kernel<O, uint64_t>};
constexpr int16_t kSumVersions[] = {11, 14};
constexpr int16_t kProdVersions[] = {26};

template <class O>
constexpr Op cumulative(const char* name, std::span<const int16_t> versions) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse>,
          .shape = shape_plain<int64_t, shape<int64_t>>,
          .kernels = kKernels<O>,
          .inplace = in_arg(0)};
}

}  // namespace

extern constexpr Op kCumSum = cumulative<Plus>("CumSum", kSumVersions);
extern constexpr Op kCumProd = cumulative<Times>("CumProd", kProdVersions);
extern constexpr OpInference kCumSumInference{.shape = shape_plain<Dim, shape<Dim>>};
extern constexpr OpInference kCumProdInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
