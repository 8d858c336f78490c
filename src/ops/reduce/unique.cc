// Unique — the distinct elements of a tensor, or its distinct slices along an axis. NaNs are one value, the largest.
#include <algorithm>
#include <numeric>

#include "core/convert.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  std::optional<int64_t> axis;
  bool sorted = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  a.get("sorted", p.sorted);
  return {};
}

void types(TypeCall& c) {
  c.out[0] = c.in[0];
  for (size_t o = 1; o < c.out.size(); ++o) c.out[o] = {Kind::tensor, DType::i64, Kind::tensor};
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  const Dim found = c.fresh();
  DimVec<Dim> out{found};
  Dim had = c.count(0);
  if (p.axis) {
    const auto axis = normalize_axis(*p.axis, c.rank(0));
    if (!axis) return c.refuse(0, format("a tensor that has axis {}", *p.axis));
    had = c.dim(0, *axis);
    out = DimVec<Dim>(c.dims(0));
    out[*axis] = found;
  }
  TRY(c.set(0, out));
  for (int o = 1; o < c.outputs(); ++o) TRY(c.set(o, DimVec<Dim>{o == 2 ? had : found}));
  return {};
}

// -1, 0 or 1.
template <class T>
int compare(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a != a || b != b) return (a != a) - (b != b);
  return (b < a) - (a < b);
}

// The slices of a tensor [outer, length, inner] whose elements are `width` keys each.
template <class Key>
struct SliceKeys {
  const Key* keys;
  Slices s;
  int64_t width;

  int compare_slices(int64_t a, int64_t b) const {
    const int64_t run = s.inner * width;
    for (int64_t o = 0; o < s.outer; ++o) {
      const Key *x = keys + (o * s.length + a) * run, *y = keys + (o * s.length + b) * run;
      for (int64_t i = 0; i < run; ++i)
        if (const int c = compare(x[i], y[i])) return c;
    }
    return 0;
  }
};

struct Found {
  std::vector<int64_t> first;    // of each distinct slice, in output order
  std::vector<int64_t> inverse;  // of each slice, its number in the output
  std::vector<int64_t> counts;
};

template <class Key>
Found find(const SliceKeys<Key>& slices, bool sorted) {
  const auto n = static_cast<size_t>(slices.s.length);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int c = slices.compare_slices(a, b);
    return c < 0 || (c == 0 && a < b);
  });
  Found f;
  f.inverse.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || slices.compare_slices(order[i - 1], order[i]) != 0) {
      f.first.push_back(order[i]);
      f.counts.push_back(0);
    }
    f.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(f.first.size()) - 1;
    ++f.counts.back();
  }
  if (sorted) return f;
  // By first occurrence instead.
  std::vector<int64_t> rank(f.first.size()), number(f.first.size());
  std::iota(rank.begin(), rank.end(), 0);
  std::sort(rank.begin(), rank.end(),
            [&](int64_t a, int64_t b) { return f.first[static_cast<size_t>(a)] < f.first[static_cast<size_t>(b)]; });
  Found g;
  for (size_t i = 0; i < rank.size(); ++i) {
    number[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
    g.first.push_back(f.first[static_cast<size_t>(rank[i])]);
    g.counts.push_back(f.counts[static_cast<size_t>(rank[i])]);
  }
  for (const int64_t i : f.inverse) g.inverse.push_back(number[static_cast<size_t>(i)]);
  return g;
}

// Numbers are compared in the widest type of their kind: int64, uint64 or double; complex ones as two doubles.
Found find(const Call& call, const Slices& s, bool sorted) {
  DType t = call.dtype(0);
  if (t == DType::string) return find(SliceKeys<std::string>{call.in<std::string>(0), s, 1}, sorted);
  const int64_t width = kComplex.has(t) ? 2 : 1, n = call.count(0) * width;
  if (kComplex.has(t)) t = t == DType::c64 ? DType::f32 : DType::f64;
  if (kFloats.has(t)) {
    std::vector<double> keys(static_cast<size_t>(n));
    decode(t, call.in(0), 0, n, keys.data());
    return find(SliceKeys<double>{keys.data(), s, width}, sorted);
  }
  std::vector<int64_t> keys(static_cast<size_t>(n));
  decode(t, call.in(0), 0, n, keys.data());
  if (t == DType::u64) return find(SliceKeys<uint64_t>{reinterpret_cast<uint64_t*>(keys.data()), s, 1}, sorted);
  return find(SliceKeys<int64_t>{keys.data(), s, 1}, sorted);
}

Status put(Call& call, int o, const std::vector<int64_t>& values) {
  if (!call.wants(o)) return {};
  TRY_ASSIGN(y, call.allocate<int64_t>(o, Shape{static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), y);
  return {};
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  Slices s{1, shape.count(), 1};
  DimVec<int64_t> dims;
  int axis = 0;
  if (p.axis) {
    const auto a = normalize_axis(*p.axis, shape.rank());
    if (!a) return call.refuse(0, "a tensor that has axis {}", *p.axis);
    s = shape.around(axis = *a);
    dims.append(shape.dims());
  } else {
    dims.push(s.length);
  }
  const Found f = find(call, s, p.sorted);
  const auto n = static_cast<int64_t>(f.first.size());
  dims[axis] = n;
  const DType t = call.dtype(0);
  TRY(call.allocate(0, t, Shape(dims.span())));
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      copy_elements(t, call.in(0), (o * s.length + f.first[static_cast<size_t>(i)]) * s.inner, call.out(0),
                    (o * n + i) * s.inner, s.inner);
  TRY(put(call, 1, f.first));
  TRY(put(call, 2, f.inverse));
  return put(call, 3, f.counts);
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kNumbers | kComplex | set_of(DType::boolean, DType::string)},
                               {out_arg(1) | out_arg(2) | out_arg(3), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 28};

}  // namespace

extern constexpr Op kUnique{.domain = "",
                            .name = "Unique",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .types = types,
                            .kernels = kKernels};
extern constexpr OpInference kUniqueInference{.shape = infer_shape};

}  // namespace tessera
