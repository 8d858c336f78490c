// Range — start, start + delta, start + 2 delta ... short of limit.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  DType stash = DType::f32;  // the type in which ranges of half floats are counted
};
Status parse(Attrs& a, Params& p) {
  a.get("stash_type", p.stash);
  return {};
}

// Elements from start to limit; nothing when delta is zero or there would be more than memory could ever hold.
std::optional<int64_t> count_of(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return {};
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  const uint64_t distance = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                      : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
  const uint64_t n = (distance - 1) / step + 1;
  if (n > uint64_t{1} << 48) return {};
  return static_cast<int64_t>(n);
}
std::optional<int64_t> count_of(bool wide, double start, double limit, double delta) {
  const double distance = wide ? limit - start : static_cast<float>(limit) - static_cast<float>(start);
  const double n = std::ceil(distance / delta);
  if (delta == 0 || !(n < 0x1p48)) return {};
  return n > 0 ? static_cast<int64_t>(n) : 0;
}

constexpr const char* kWanted = "a delta that reaches the limit in a number of steps that memory can hold";

template <class D>
Status check_scalars(ShapeCall<D>& c) {
  for (int i = 0; i < 3; ++i) {
    const D n = c.count(i);
    if (known(n) && number(n) != 1) return c.refuse(i, "a scalar");
  }
  return {};
}

Status shape(const Params& p, ShapeCall<int64_t>& c) {
  TRY(check_scalars(c));
  std::optional<int64_t> n;
  if (kInts.has(c.dtype(0))) {
    int64_t v[3];
    for (int i = 0; i < 3; ++i) {
      const auto list = c.content(i);
      if (!list) return c.unknown(0, 1);
      v[i] = (*list)[0];
    }
    n = count_of(v[0], v[1], v[2]);
  } else {
    const auto start = c.real(0), limit = c.real(1), delta = c.real(2);
    if (!start || !limit || !delta) return c.unknown(0, 1);
    const bool wide = c.dtype(0) == DType::f64 || (kHalfFloats.has(c.dtype(0)) && p.stash == DType::f64);
    n = count_of(wide, *start, *limit, *delta);
  }
  if (!n) return c.refuse(2, kWanted);
  return c.set(0, DimVec<int64_t>{*n});
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  TRY(check_scalars(c));
  const auto start = c.content(0), limit = c.content(1), delta = c.content(2);
  if (!start || !limit || !delta || !(*delta)[0].known()) return c.unknown(0, 1);
  const Dim &first = (*start)[0], &last = (*limit)[0];
  const int64_t step = (*delta)[0].value();
  if (step == 0) return c.refuse(2, kWanted);
  if (!first.known() || !last.known()) {
    Dim length = step > 0 ? last - first : first - last;
    if (!never_negative(length)) length = dim_max(length, Dim(0));
    if (step != 1 && step != -1) length = ceil_division(length, step > 0 ? Dim(step) : Dim(0) - Dim(step));
    return c.set(0, DimVec<Dim>{length});
  }
  const auto n = count_of(first.value(), last.value(), step);
  if (!n) return c.refuse(2, kWanted);
  TRY(c.set(0, DimVec<Dim>{Dim(*n)}));
  if (*n > kMostContent) return {};
  std::vector<Dim> out;
  for (int64_t i = 0; i < *n; ++i) out.push_back(Dim(first.value()) + Dim(i) * Dim(step));
  c.set_content(0, out);
  return {};
}

// Integers wrap in unsigned arithmetic; they never get that far.
template <class T>
Status compute(Call& call) {
  const T start = *call.in<T>(0), delta = *call.in<T>(2);
  T* y = call.out<T>(0);
  for_pieces(call, call.out_count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
      if constexpr (std::is_integral_v<T>)
        y[i] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      else
        y[i] = start + static_cast<T>(i) * delta;
    }
  });
  return {};
}

template <class C>
void fill_half(Call& call) {
  C start, delta;
  decode(call.dtype(0), call.in(0), 0, 1, &start);
  decode(call.dtype(2), call.in(2), 0, 1, &delta);
  for (int64_t i = 0, n = call.out_count(0); i < n; ++i) {
    const C v = start + static_cast<C>(i) * delta;
    encode(call.dtype(0), call.out(0), i, 1, &v);
  }
}

// The half types count in the type of stash_type, each element rounded once.
Status compute_half(const Params& p, Call& call) {
  if (p.stash == DType::f64) return fill_half<double>(call), Status{};
  if (p.stash != DType::f32) return invalid_graph("its stash_type is {}, wanted float or double", name_of(p.stash));
  return fill_half<float>(call), Status{};
}

constexpr uint32_t kAll = in_arg(0) | in_arg(1) | in_arg(2) | out_arg(0);
template <class T>
constexpr TypeRule kOf[] = {{kAll, set_of(dtype_of<T>)}};
constexpr TypeRule kHalf[] = {{kAll, kHalfFloats}};
constexpr Kernel kKernels[] = {
    {kOf<float>, compute_plain<compute<float>>},     {kOf<double>, compute_plain<compute<double>>},
    {kOf<int16_t>, compute_plain<compute<int16_t>>}, {kOf<int32_t>, compute_plain<compute<int32_t>>},
    {kOf<int64_t>, compute_plain<compute<int64_t>>}, {kHalf, compute_with<Params, compute_half>}};
constexpr int16_t kVersions[] = {11, 27};

}  // namespace

extern constexpr Op kRange{.domain = "",
                           .name = "Range",
                           .versions = kVersions,
                           .parse = parse_params<Params, parse>,
                           .shape = shape_with<Params, int64_t, shape>,
                           .kernels = kKernels,
                           .shape_inputs = in_arg(0) | in_arg(1) | in_arg(2)};
extern constexpr OpInference kRangeInference{.shape = infer_shape};

}  // namespace tessera
