// Two inputs with broadcasting: the form shared by arithmetic, comparisons and logic, with the axis of old versions.
#pragma once
#include "ops/elementwise.h"

namespace tessera {

struct BinaryParams {
  std::optional<int64_t> axis;  // before version 7: where B's dimensions stand in A's
};

inline Status parse_binary(Attrs& a, BinaryParams& p) {
  if (a.version() >= 7) return {};
  a.get("axis", p.axis);
  if (p.axis && (*p.axis < -kMaxRank || *p.axis > kMaxRank)) return a.refuse("axis", "a dimension of input 0");
  return {};
}

// B's dimensions as they meet A's: shifted left by trailing ones when an axis was given.
template <class D>
DimVec<D> aligned(const BinaryParams& p, std::span<const D> b, int rank_a) {
  DimVec<D> out(b);
  if (!p.axis) return out;
  const int64_t axis = *p.axis < 0 ? *p.axis + rank_a : *p.axis;
  while (axis + out.size() < rank_a && !out.full()) out.push(D(1));
  return out;
}

template <class D>
Status binary_shape(const BinaryParams& p, ShapeCall<D>& c) {
  DimVec<D> out(c.dims(0));
  if (!broadcast_into(out, aligned(p, c.dims(1), c.rank(0)).span(), c))
    return c.refuse(1, "a shape that broadcasts with input 0");
  return c.set(0, out);
}

// Calls row(const BroadcastRows::Row&) for the whole output.
template <class F>
void for_binary_rows(const BinaryParams& p, const Call& call, F&& row) {
  const Shape &a = call.shape(0), &b = call.shape(1);
  const int64_t n = call.out_count(0);
  if (a == b && n <= 4096) return row(BroadcastRows::Row{0, n, {0, 0}, {1, 1}});
  const DimVec<int64_t> dims = aligned(p, b.dims(), a.rank());
  const std::span<const int64_t> inputs[] = {a.dims(), dims.span()};
  BroadcastRows(call.out_shape(0), inputs).run(call.threads(), row);
}

// y[i] = fn(a[i], b[i]) with broadcasting.
template <class In, class Out, class F>
void map_binary(const BinaryParams& p, Call& call, F&& fn) {
  const In *a = call.in<In>(0), *b = call.in<In>(1);
  Out* y = call.out<Out>(0);
  for_binary_rows(p, call, [&](const BroadcastRows::Row& r) {
    const In *pa = a + r.in[0], *pb = b + r.in[1];
    Out* py = y + r.out;
    const int64_t da = r.step[0], db = r.step[1];
    for (int64_t i = 0; i < r.n; ++i) py[i] = fn(pa[i * da], pb[i * db]);
  });
}

// Elements of the output that follow from known elements of two integer inputs: fn gives one, or nothing if it cannot.
template <class F>
void infer_binary_content(ShapeCall<Dim>& c, F&& fn) {
  const auto a = c.content(0), b = c.content(1);
  if (!a || !b) return;
  const bool lists = c.rank(0) == 1 && c.rank(1) == 1 && a->size() == b->size();
  if (!lists && a->size() != 1 && b->size() != 1) return;
  std::vector<Dim> out;
  for (size_t i = 0; i < (a->size() == 1 ? b->size() : a->size()); ++i) {
    const std::optional<Dim> d = fn((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!d) return;
    out.push_back(*d);
  }
  c.set_content(0, out);
}

// True if the divisor holds no zero that would meet an element; else the place of one in *at.
template <class T>
bool divisors_ok(const Call& call, const T* b, int64_t* at) {
  const int64_t n = call.out_count(0) ? call.count(1) : 0;
  *at = std::find(b, b + n, T{0}) - b;
  return *at == n;
}

// Inputs share type T (or a type widened to it), the output is bool.
template <class T>
inline constexpr TypeRule kSameToBool[] = {{in_arg(0) | in_arg(1), set_of(dtype_of<T>), widened_to<T>},
                                           {out_arg(0), set_of(DType::boolean)}};

}  // namespace tessera
