// BranchwiseRMSNorm, HyperConnectionPreMix, HyperConnectionPostMix, EngramGate, ScaledSiLU — networks whose features
// run in several branches beside each other: [..., branches, features], or the last two in one when num_branches says
// so.
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::ValueId;

struct Params {
  int64_t branches = 0;  // 0: the last dimension but one
  float epsilon = 1e-5f, scale = 1;
};
Status parse(Attrs& a, Params& p) {
  a.get("num_branches", p.branches);
  a.get("epsilon", p.epsilon);
  a.get("reduction_scale", p.scale);
  return p.branches < 0 ? a.refuse("num_branches", "at least 0") : Status{};
}

// The dimensions in front, the number of branches and of features of input 0.
template <class D>
struct Streams {
  DimVec<D> lead;
  D branches, features;
};

template <class D>
Status split_streams(const Params& p, ShapeCall<D>& c, Streams<D>& s) {
  const int rank = c.rank(0);
  if (p.branches == 0) {
    if (rank < 2) return c.refuse(0, "[..., branches, features]");
    s = {DimVec<D>(c.dims(0).first(static_cast<size_t>(rank - 2))), c.dim(0, rank - 2), c.dim(0, rank - 1)};
    return {};
  }
  if (rank < 1 || (known(c.dim(0, rank - 1)) && number(c.dim(0, rank - 1)) % p.branches != 0))
    return c.refuse(0, format("[..., {} * features]", p.branches));
  s = {DimVec<D>(c.dims(0).first(static_cast<size_t>(rank - 1))), D(p.branches),
       floor_div(c.dim(0, rank - 1), D(p.branches))};
  return {};
}

// Whether input i is `lead` and then these dimensions.
template <class D>
bool is(ShapeCall<D>& c, int i, const DimVec<D>& lead, std::initializer_list<D> tail) {
  if (c.rank(i) != lead.size() + static_cast<int>(tail.size())) return false;
  for (int k = 0; k < lead.size(); ++k)
    if (!agree(c.dim(i, k), lead[k])) return false;
  for (int k = 0; k < static_cast<int>(tail.size()); ++k)
    if (!agree(c.dim(i, lead.size() + k), tail.begin()[k])) return false;
  return true;
}

// ------------------------------------------------------------------------------------ BranchwiseRMSNorm

template <class D>
Status shape_norm(const Params& p, ShapeCall<D>& c) {
  Streams<D> s;
  TRY(split_streams(p, c, s));
  const DimVec<D> none;
  if (c.has(1) && !is(c, 1, none, {s.branches * s.features}) && !is(c, 1, none, {s.branches, s.features}) &&
      !is(c, 1, none, {s.features}))
    return c.refuse(1, "[branches * features], [branches, features] or [features]");
  return c.set(0, c.dims(0));
}

// x / sqrt(mean(x * x) + epsilon), times scale.
void normalize(const float* x, int64_t n, float epsilon, const float* scale, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const auto factor = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(epsilon)));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor * (scale ? scale[i] : 1.f);
}

struct Sizes {
  int64_t rows, branches, features;
};
Sizes sizes_of(const Params& p, const Call& call) {
  const Shape& s = call.shape(0);
  const int rank = s.rank();
  if (p.branches == 0) return {s.count(0, rank - 2), s[rank - 2], s[rank - 1]};
  return {s.count(0, rank - 1), p.branches, s[rank - 1] / p.branches};
}

Status compute_norm(const Params& p, Call& call) {
  const Sizes s = sizes_of(p, call);
  const float *x = call.in<float>(0), *scale = call.has(1) ? call.in<float>(1) : nullptr;
  const bool shared = scale && call.count(1) == s.features;
  float* y = call.out<float>(0);
  call.parallel(s.rows, [&](int64_t r, int) {
    for (int64_t b = 0; b < s.branches; ++b) {
      const int64_t at = (r * s.branches + b) * s.features;
      normalize(x + at, s.features, p.epsilon, scale ? scale + (shared ? 0 : b * s.features) : nullptr, y + at);
    }
  });
  return {};
}

// ------------------------------------------------------------------------------------ HyperConnection

template <class D>
Status check_gate(const Params& p, ShapeCall<D>& c, int i, const Streams<D>& s, bool flat) {
  if (is(c, i, s.lead, {s.branches}) || is(c, i, s.lead, {s.branches, D(1)}) ||
      is(c, i, s.lead, {s.branches, s.features}))
    return {};
  if (flat && p.branches > 0 && is(c, i, s.lead, {s.branches * s.features})) return {};
  return c.refuse(i, "a number for each branch, or for each feature of it");
}

template <class D>
Status shape_pre(const Params& p, ShapeCall<D>& c) {
  Streams<D> s;
  TRY(split_streams(p, c, s));
  TRY(check_gate(p, c, 1, s, true));
  s.lead.push(s.features);
  return c.set(0, s.lead);
}

template <class D>
Status shape_post(const Params& p, ShapeCall<D>& c) {
  Streams<D> s;
  TRY(split_streams(p, c, s));
  if (!is(c, 1, s.lead, {s.features})) return c.refuse(1, "[..., features]");
  TRY(check_gate(p, c, 2, s, false));
  if (c.has(3) && !is(c, 3, s.lead, {s.branches, s.branches})) return c.refuse(3, "[..., branches, branches]");
  return c.set(0, c.dims(0));
}

// A gate has one number for a branch, or one for each feature.
struct Gate {
  const float* data;
  int64_t step, inner;
  Gate(const Call& call, int i, const Sizes& s)
      : data(call.in<float>(i)),
        step(call.count(i) == s.rows * s.branches ? 1 : s.features),
        inner(step == s.features && call.count(i) == s.rows * s.branches * s.features ? 1 : 0) {}
  float operator()(int64_t branch, int64_t feature) const { return data[branch * step + feature * inner]; }
};

Status compute_pre(const Params& p, Call& call) {
  const Sizes s = sizes_of(p, call);
  const float* x = call.in<float>(0);
  const Gate gate(call, 1, s);
  float* y = call.out<float>(0);
  call.parallel(s.rows, [&](int64_t r, int) {
    for (int64_t f = 0; f < s.features; ++f) {
      float sum = 0;
      for (int64_t b = r * s.branches; b < (r + 1) * s.branches; ++b) sum += x[b * s.features + f] * gate(b, f);
      y[r * s.features + f] = sum * p.scale;
    }
  });
  return {};
}

Status compute_post(const Params& p, Call& call) {
  const Sizes s = sizes_of(p, call);
  const float *x = call.in<float>(0), *block = call.in<float>(1), *mix = call.has(3) ? call.in<float>(3) : nullptr;
  const Gate gate(call, 2, s);
  float* y = call.out<float>(0);
  call.parallel(s.rows, [&](int64_t r, int) {
    for (int64_t k = 0; k < s.branches; ++k)
      for (int64_t f = 0; f < s.features; ++f) {
        const int64_t b = r * s.branches + k;
        float sum = mix ? 0 : x[b * s.features + f];
        for (int64_t c = 0; mix && c < s.branches; ++c)
          sum += mix[(r * s.branches + c) * s.branches + k] * x[(r * s.branches + c) * s.features + f];
        y[b * s.features + f] = sum + gate(b, f) * block[r * s.features + f];
      }
  });
  return {};
}

// ------------------------------------------------------------------------------------ EngramGate

template <class D>
Status shape_gate(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "[batch, length, branches, features]");
  const DimVec<D> none;
  const D batch = c.dim(0, 0), length = c.dim(0, 1), branches = c.dim(0, 2), features = c.dim(0, 3);
  if (!is(c, 1, none, {batch, length, branches, features})) return c.refuse(1, "the shape of key");
  if (!is(c, 2, none, {batch, length, features})) return c.refuse(2, "[batch, length, features]");
  for (int i = 3; i < std::min(c.inputs(), 6); ++i)
    if (c.has(i) && !is(c, i, none, {branches, features})) return c.refuse(i, "[branches, features]");
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, c.dims(0)));
  return {};
}

Status compute_gate(const Params& p, Call& call) {
  if (call.wants(1) && !call.has(5)) return invalid("the output gated_value_normed wants the input conv_norm_scale");
  const Shape& s = call.shape(0);
  const int64_t branches = s[2], features = s[3];
  const float *key = call.in<float>(0), *query = call.in<float>(1), *value = call.in<float>(2);
  float *y = call.out<float>(0), *normed = call.out<float>(1);
  call.parallel(s[0] * s[1], [&](int64_t r, int) {
    std::vector<float> k(static_cast<size_t>(features)), q(k);
    for (int64_t b = 0; b < branches; ++b) {
      const int64_t at = (r * branches + b) * features, scale = b * features;
      normalize(key + at, features, p.epsilon, call.in<float>(3) + scale, k.data());
      normalize(query + at, features, p.epsilon, call.in<float>(4) + scale, q.data());
      float dot = 0;
      for (size_t i = 0; i < k.size(); ++i) dot += k[i] * q[i];
      dot /= std::sqrt(static_cast<float>(features));
      const float root = std::copysign(std::sqrt(std::max(std::abs(dot), 1e-6f)), dot);
      const float gate = 1 / (1 + std::exp(dot == 0 ? 0.f : -root));
      for (int64_t i = 0; i < features; ++i) y[at + i] = gate * value[r * features + i];
      if (normed) normalize(y + at, features, p.epsilon, call.in<float>(5) + scale, normed + at);
    }
  });
  return {};
}

// ------------------------------------------------------------------------------------ ScaledSiLU

// The product, its sigmoid and the product of both are rounded to the type of x each.
Status compose_silu(Composer& c) {
  float alpha = 1;
  c.attrs().get("alpha", alpha);
  const ValueId x = c.in(0);
  TRY_ASSIGN(factor, Tensor::scalar<float>(alpha));
  const ValueId one = c.constant(std::move(factor));
  const ValueId scale = c.has(1) ? c.op("CastLike", {c.in(1), one}) : one;
  const ValueId z = c.op("CastLike", {c.op("Mul", {c.op("CastLike", {x, one}), scale}), x});
  c.out(0, c.op("Mul", {z, c.op("Sigmoid", {z})}));
  return {};
}

constexpr Arity kNorm{in_arg(0), 2}, kPre{in_arg(0) | in_arg(1), 2}, kPost{in_arg(0) | in_arg(1) | in_arg(2), 4};
constexpr Arity kGate{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4), 6, 2}, kSilu{in_arg(0), 2};
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(1), set_of(DType::f32), kHalfFloats}};
constexpr TypeRule kPostTypes[] = {{in_arg(0) | in_arg(1) | out_arg(0), set_of(DType::f32), kHalfFloats},
                                   {in_arg(2) | in_arg(3), set_of(DType::f32), kHalfFloats}};
constexpr TypeRule kGateTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(5) | out_arg(0) | out_arg(1),
     set_of(DType::f32), kHalfFloats}};
constexpr Kernel kNormKernels[] = {{kTypes, compute_with<Params, compute_norm>}};
constexpr Kernel kPreKernels[] = {{kTypes, compute_with<Params, compute_pre>}};
constexpr Kernel kPostKernels[] = {{kPostTypes, compute_with<Params, compute_post>}};
constexpr Kernel kGateKernels[] = {{kGateTypes, compute_with<Params, compute_gate>}};

template <const Arity& A, Status (*S)(const Params&, ShapeCall<int64_t>&)>
constexpr Op op(const char* name, std::span<const Kernel> kernels) {
  return {.domain = kDomain,
          .name = name,
          .versions = kVersions,
          .parse = parse_checked<Params, A, parse>,
          .shape = shape_with<Params, int64_t, S>,
          .kernels = kernels};
}

}  // namespace

extern constexpr Op kMicrosoftBranchwiseRMSNorm = op<kNorm, shape_norm<int64_t>>("BranchwiseRMSNorm", kNormKernels);
extern constexpr Op kMicrosoftHyperConnectionPreMix =
    op<kPre, shape_pre<int64_t>>("HyperConnectionPreMix", kPreKernels);
extern constexpr Op kMicrosoftHyperConnectionPostMix =
    op<kPost, shape_post<int64_t>>("HyperConnectionPostMix", kPostKernels);
extern constexpr Op kMicrosoftEngramGate = op<kGate, shape_gate<int64_t>>("EngramGate", kGateKernels);
extern constexpr Op kMicrosoftScaledSiLU = composed<kSilu, compose_silu>("ScaledSiLU");
extern constexpr OpInference kMicrosoftBranchwiseRMSNormInference{.shape = shape_with<Params, Dim, shape_norm<Dim>>};
extern constexpr OpInference kMicrosoftHyperConnectionPreMixInference{.shape = shape_with<Params, Dim, shape_pre<Dim>>};
extern constexpr OpInference kMicrosoftHyperConnectionPostMixInference{.shape =
                                                                           shape_with<Params, Dim, shape_post<Dim>>};
extern constexpr OpInference kMicrosoftEngramGateInference{.shape = shape_with<Params, Dim, shape_gate<Dim>>};
extern constexpr OpInference kMicrosoftScaledSiLUInference{};

}  // namespace tessera
