// OneHot — a new axis of length depth, "on" where the index points and "off" elsewhere. An index outside
// [-depth, depth) turns nothing on.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = -1;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  return {};
}

void types(TypeCall& c) { c.out[0] = c.in.size() > 2 ? c.in[2] : TypeDesc{}; }

// Fractions are cut off.
template <class D>
std::optional<D> depth_of(ShapeCall<D>& c) {
  if (const auto list = c.content(1)) return (*list)[0];
  if (const auto v = c.real(1)) return D(to_integer<int64_t>(*v));
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0) + 1;
  const auto axis = normalize_axis(p.axis, rank);
  if (!axis) return c.refuse(0, format("an axis attribute from -{} to {}", rank, rank - 1));
  if (known(c.count(1)) && number(c.count(1)) != 1) return c.refuse(1, "one number");
  if (c.rank(2) != 1 || (known(c.dim(2, 0)) && number(c.dim(2, 0)) != 2)) return c.refuse(2, "two values, off and on");
  if (rank >= kMaxRank) return c.refuse(0, "a smaller rank");
  DimVec<D> out(c.dims(0));
  const auto depth = depth_of(c);
  out.insert(*axis, depth ? *depth : c.fresh());
  if (!depth) return set_partly(c, 0, out);
  if (known(*depth) && number(*depth) < 0) return c.refuse(1, format("a depth of at least 0, not {}", number(*depth)));
  return c.set(0, out);
}

// Index k as a number in [0, depth), or -1.
int64_t index_at(const Call& call, int64_t k, int64_t depth) {
  int64_t v;
  const DType t = call.dtype(0);
  if (kFloats.has(t)) {
    double real;
    decode(t, call.in(0), k, 1, &real);
    v = to_integer<int64_t>(real);
  } else {
    decode(t, call.in(0), k, 1, &v);
    if (t == DType::u64 && v < 0) return -1;
  }
  if (v < -depth || v >= depth) return -1;
  return v < 0 ? v + depth : v;
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const Slices s = call.out_shape(0).around(*normalize_axis(p.axis, call.out_shape(0).rank()));
  const DType t = call.dtype(2);
  alignas(16) unsigned char off[16] = {};
  std::string off_text;
  if (t == DType::string)
    off_text = call.in<std::string>(2)[0];
  else
    copy_elements(t, call.in(2), 0, off, 0, 1);
  const void* one = t == DType::string ? static_cast<const void*>(&off_text) : off;
  with_mover(t, call.in(2), y, [&](auto move) {
    for_blocks(call, t, s.outer, s.length * s.inner, [&](int64_t begin, int64_t end) {
      fill_elements(t, y, begin * s.length * s.inner, (end - begin) * s.length * s.inner, one);
      for (int64_t k = begin * s.inner; k < end * s.inner; ++k)
        if (const int64_t i = index_at(call, k, s.length); i >= 0)
          move(1, (k / s.inner * s.length + i) * s.inner + k % s.inner);
    });
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), kNumbers}, {in_arg(1), kNumbers}, {in_arg(2) | out_arg(0), kEveryType}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {9, 11, 28};

}  // namespace

extern constexpr Op kOneHot{.domain = "",
                            .name = "OneHot",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .types = types,
                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                            .kernels = kKernels,
                            .shape_inputs = in_arg(1)};
extern constexpr OpInference kOneHotInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
