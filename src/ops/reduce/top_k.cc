// TopK — the k largest (smallest) elements along an axis and where they are, best first. NaN counts as the largest
// number; of equal ones the lower index is first.
#include <algorithm>
#include <vector>

#include "ir/patch.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = -1;
  bool largest = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  a.get("largest", p.largest);
  return {};
}

// Version 1 has k as an attribute.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  if (since >= 10) return {};
  ir::Node& n = graph.node(id);
  int64_t k = -1;
  Attrs a(n, since);
  a.get("k", k);
  TRY(a.done());
  if (k < 0) return a.refuse("k", "a number of elements");
  std::erase_if(n.attributes, [](const ir::Attribute& x) { return x.name == "k"; });
  n.inputs.resize(1);
  const std::string name = n.name + "/k";
  TRY_ASSIGN(t, Tensor::of<int64_t>(Shape{1}, std::span<const int64_t>(&k, 1)));
  const ir::ValueId value = graph.add_constant(std::move(t), name);
  graph.node(id).inputs.push_back(value);
  return {};
}

void types(TypeCall& c) {
  c.out[0] = c.in[0];
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::i64, Kind::tensor};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor that has axis {}", p.axis));
  const D n = c.count(1);
  if (c.rank(1) > 1 || (known(n) && number(n) != 1)) return c.refuse(1, "one number");
  DimVec<D> out(c.dims(0));
  const auto k = c.content(1);
  if (k && !k->empty()) {
    out[*axis] = (*k)[0];
    const D& had = c.dim(0, *axis);
    if (known(out[*axis]) && (number(out[*axis]) < 0 || (known(had) && number(out[*axis]) > number(had))))
      return c.refuse(1, "a number from 0 to the size of the axis");
  } else {
    const D unknown = c.fresh();
    if (known(unknown)) return c.unknown(0);
    out[*axis] = unknown;
  }
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, out));
  return {};
}

template <class T>
struct Entry {
  T value;
  int64_t index;
};

template <class T, bool Largest>
bool before(const Entry<T>& a, const Entry<T>& b) {
  const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
  if (nan_a != nan_b) return Largest ? nan_a : nan_b;
  if (a.value != b.value && !nan_a) return Largest ? a.value > b.value : a.value < b.value;
  return a.index < b.index;
}

// The k best of a column, in order, into `best`.
template <class T, bool Largest>
void select(const T* x, int64_t n, int64_t step, int64_t k, std::vector<Entry<T>>& best) {
  best.clear();
  if (k == 0) return;
  if (k > n / 8) {
    for (int64_t i = 0; i < n; ++i) best.push_back({x[i * step], i});
    const auto end = best.begin() + k;
    if (k < n) std::nth_element(best.begin(), end - 1, best.end(), before<T, Largest>);
    best.resize(static_cast<size_t>(k));
    std::sort(best.begin(), best.end(), before<T, Largest>);
    return;
  }
  // A heap of the best so far, the worst of them on top.
  for (int64_t i = 0; i < k; ++i) best.push_back({x[i * step], i});
  std::make_heap(best.begin(), best.end(), before<T, Largest>);
  for (int64_t i = k; i < n; ++i) {
    const Entry<T> e{x[i * step], i};
    if (!before<T, Largest>(e, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), before<T, Largest>);
    best.back() = e;
    std::push_heap(best.begin(), best.end(), before<T, Largest>);
  }
  std::sort_heap(best.begin(), best.end(), before<T, Largest>);
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Slices s = call.shape(0).around(*normalize_axis(p.axis, call.shape(0).rank()));
  const int64_t k = call.in<int64_t>(1)[0], columns = s.outer * s.inner;
  const T* x = call.in<T>(0);
  T* values = call.out<T>(0);
  int64_t* indices = call.out<int64_t>(1);
  const int64_t each = std::max<int64_t>(1, (1 << 12) / std::max<int64_t>(1, s.length));
  call.parallel(ceil_div(columns, each), [&](int64_t chunk, int) {
    std::vector<Entry<T>> best;
    for (int64_t c = chunk * each; c < std::min(columns, (chunk + 1) * each) && !call.cancelled(); ++c) {
      const int64_t outer = c / s.inner, inner = c % s.inner;
      const T* column = x + outer * s.length * s.inner + inner;
      (p.largest ? select<T, true> : select<T, false>)(column, s.length, s.inner, k, best);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at = (outer * k + i) * s.inner + inner;
        if (values) values[at] = best[static_cast<size_t>(i)].value;
        if (indices) indices[at] = best[static_cast<size_t>(i)].index;
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(1) | out_arg(1), set_of(DType::i64)}};
template <class T>
constexpr Kernel kernel{kTypes<T>, compute_with<Params, compute<T>>};
constexpr Kernel kKernels[] = {kernel<float>,   kernel<double>,   kernel<int32_t>,
                               kernel<int64_t>, kernel<uint32_t>, kernel<uint64_t>};
constexpr int16_t kVersions[] = {1, 10, 11, 24};

}  // namespace

extern constexpr Op kTopK{.domain = "",
                          .name = "TopK",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .types = types,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels,
                          .shape_inputs = in_arg(1),
                          .upgrade = upgrade};
extern constexpr OpInference kTopKInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
