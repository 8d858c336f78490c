// FlexAttention — attention whose scores and probabilities pass through the model's own subgraphs.
#include <cmath>

#include "core/convert.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"
#include "ops/control/bodies.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

enum Input { kQ, kK, kV };

struct Params {
  std::optional<float> scale;
  DType precision = DType::undefined;  // of what the subgraphs see; undefined: float, or double for doubles
  BodyRef score_mod, prob_mod;
};

Status parse(Attrs& a, Params& p) {
  a.get("scale", p.scale);
  a.get("softmax_precision", p.precision);
  if (p.precision != DType::undefined && !kFloats.has(p.precision))
    return a.refuse("softmax_precision", "a float type of at least 16 bits");
  if (a.has("score_mod")) {
    TRY(get_body(a, "score_mod", p.score_mod));
    TRY(check_body(p.score_mod, "score_mod", 1, 1));
  }
  if (a.has("prob_mod")) {
    TRY(get_body(a, "prob_mod", p.prob_mod));
    TRY(check_body(p.prob_mod, "prob_mod", 1, 1));
  }
  return {};
}

template <class D>
bool differ(const D& a, const D& b) {
  return known(a) && known(b) && number(a) != number(b);
}

template <class D>
Status shape(ShapeCall<D>& c) {
  for (const int i : {kQ, kK, kV})
    if (c.rank(i) != 4 || differ(c.dim(i, 0), c.dim(kQ, 0)))
      return c.refuse(i, "[batch, heads, length, size], with the batch of Q");
  if (differ(c.dim(kK, 3), c.dim(kQ, 3))) return c.refuse(kK, "the head size of Q");
  if (differ(c.dim(kV, 1), c.dim(kK, 1)) || differ(c.dim(kV, 2), c.dim(kK, 2)))
    return c.refuse(kV, "the heads and the length of K");
  const D heads = c.dim(kQ, 1), shared = c.dim(kK, 1);
  if (known(heads) && known(shared) && number(heads) != number(shared) &&
      (number(shared) < 1 || number(heads) % number(shared)))
    return c.refuse(kK, "a number of heads that divides that of Q");
  return c.set(0, {c.dim(kQ, 0), heads, c.dim(kQ, 2), c.dim(kV, 3)});
}

template <class C>
class Run {
 public:
  Run(const Params& p, Call& call)
      : p_(p),
        call_(call),
        heads_(call.shape(kQ)[1]),
        queries_(call.shape(kQ)[2]),
        size_(call.shape(kQ)[3]),
        keys_(call.shape(kK)[2]),
        v_size_(call.shape(kV)[3]),
        group_(heads_ / std::max<int64_t>(1, call.shape(kK)[1])) {}

  Status run() {
    TRY_ASSIGN(q, load(kQ));
    TRY_ASSIGN(k, load(kK));
    TRY_ASSIGN(v, load(kV));
    const int64_t dims[] = {call_.shape(kQ)[0], heads_, queries_, keys_};
    TRY_ASSIGN(shape, Shape::checked(dims));
    TRY_ASSIGN(scores, Tensor::allocate(dtype_of<C>, shape));
    const auto scale = static_cast<C>(p_.scale ? *p_.scale : 1 / std::sqrt(static_cast<double>(size_)));
    for_heads([&](int64_t i, int lane) {
      product(lane, scale, data(q) + i * queries_ * size_, size_, data(k) + shared(i) * keys_ * size_, true, keys_,
              mutable_data(scores) + i * queries_ * keys_);
    });
    if (p_.score_mod.graph) TRY(modify(p_.score_mod, scores));
    for_heads([&](int64_t i, int) { softmax(mutable_data(scores) + i * queries_ * keys_); });
    if (p_.prob_mod.graph) TRY(modify(p_.prob_mod, scores));
    TRY_ASSIGN(y, Tensor::allocate(dtype_of<C>, call_.out_shape(0)));
    for_heads([&](int64_t i, int lane) {
      C* out = mutable_data(y) + i * queries_ * v_size_;
      product(lane, C{1}, data(scores) + i * queries_ * keys_, keys_, data(v) + shared(i) * keys_ * v_size_, false,
              v_size_, out);
      encode(call_.out_dtype(0), call_.out(0), i * queries_ * v_size_, queries_ * v_size_, out);
    });
    return call_.cancelled() ? call_.stopped() : Status{};
  }

 private:
  static const C* data(const Tensor& t) { return static_cast<const C*>(t.data()); }
  static C* mutable_data(Tensor& t) { return static_cast<C*>(t.mutable_data()); }

  template <class F>
  void for_heads(F&& fn) {
    call_.parallel(call_.shape(kQ)[0] * heads_, [&](int64_t i, int lane) {
      if (!call_.cancelled()) fn(i, lane);
    });
  }

  // The head of keys and values that head i of all samples' queries looks at.
  int64_t shared(int64_t i) const { return i / heads_ * (heads_ / group_) + i % heads_ / group_; }

  Result<Tensor> load(int i) {
    TRY_ASSIGN(t, Tensor::allocate(dtype_of<C>, call_.shape(i)));
    decode(call_.dtype(i), call_.in(i), 0, call_.count(i), mutable_data(t));
    return std::move(t);
  }

  // c = scale * a b, with a of queries_ rows of k, b of k rows of n (or, turned, of n rows of k).
  void product(int lane, C scale, const C* a, int64_t k, const C* b, bool turned, int64_t n, C* c) {
    if constexpr (std::is_same_v<C, float>) {
      auto* packed = call_.template scratch<float>(lane);
      gemm_pack_b(b, turned ? k : n, turned, k, n, packed, 1);
      GemmEpilogue e;
      e.alpha = scale;
      gemm_f32(call_.target(), 1, queries_, n, k, a, k, false, packed, c, n, e);
    } else {
      const int64_t row = turned ? 1 : n, column = turned ? k : 1;
      for (int64_t i = 0; i < queries_; ++i)
        for (int64_t j = 0; j < n; ++j) {
          C sum = 0;
          for (int64_t d = 0; d < k; ++d) sum += a[i * k + d] * b[d * row + j * column];
          c[i * n + j] = sum * scale;
        }
    }
  }

  void softmax(C* x) {
    if constexpr (std::is_same_v<C, float>) {
      softmax_rows(call_.target(), 1, x, x, queries_, keys_);
    } else {
      for (C* row = x; keys_ && row != x + queries_ * keys_; row += keys_) {
        const C most = *std::max_element(row, row + keys_);
        C sum = 0;
        for (int64_t j = 0; j < keys_; ++j) sum += row[j] = std::exp(row[j] - most);
        for (int64_t j = 0; j < keys_; ++j) row[j] /= sum;
      }
    }
  }

  // Hands the scores to a subgraph, in the type it expects, and takes what it makes of them.
  Status modify(const BodyRef& body, Tensor& scores) {
    const DType type = p_.precision != DType::undefined ? p_.precision : dtype_of<C>;
    const Shape shape = scores.shape();
    if (type != scores.dtype()) {
      TRY_ASSIGN(narrow, Tensor::allocate(type, shape));
      encode(type, narrow.mutable_data(), 0, narrow.count(), data(scores));
      scores = std::move(narrow);
    }
    if (const Fact& wants = body.input(0); wants.dtype != DType::undefined && wants.dtype != type)
      return invalid_graph("its subgraph takes {}, but the scores are {}", name_of(wants.dtype), name_of(type));
    std::vector<Value> in{std::move(scores)}, out(static_cast<size_t>(body.outputs()));
    TRY(call_.body(body.index).run(in, out));
    const Tensor* result = out[0].tensor();
    if (!result || result->dtype() != type || !(result->shape() == shape))
      return invalid_graph("its subgraph made {}, wanted {} of shape {}", out[0].describe(), name_of(type),
                           shape.dims());
    TRY_ASSIGN(own, Tensor::allocate(dtype_of<C>, shape));
    decode(type, result->data(), 0, own.count(), mutable_data(own));
    scores = std::move(own);
    return {};
  }

  const Params& p_;
  Call& call_;
  int64_t heads_, queries_, size_, keys_, v_size_, group_;
};

template <class T>
Status compute(const Params& p, Call& call) {
  return p.precision == DType::f64 || std::is_same_v<T, double> ? Run<double>(p, call).run()
                                                                : Run<float>(p, call).run();
}

int64_t scratch(const void*, const ScratchCall& in) {
  const Shape &k = *in[kK], &v = *in[kV];
  const size_t for_keys = k.count() ? gemm_packed_bytes(k[2], k[3]) : 0;
  const size_t for_values = v.count() ? gemm_packed_bytes(v[3], v[2]) : 0;
  return static_cast<int64_t>(std::max(for_keys, for_values));
}

constexpr uint32_t kAll = in_arg(kQ) | in_arg(kK) | in_arg(kV) | out_arg(0);
constexpr TypeRule kFloatTypes[] = {{kAll, set_of(DType::f32), kHalfFloats}};
constexpr TypeRule kDoubleTypes[] = {{kAll, set_of(DType::f64)}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Params, compute<float>>},
                               {kDoubleTypes, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kPreviewFlexAttention{.domain = "ai.onnx.preview",
                                          .name = "FlexAttention",
                                          .versions = kVersions,
                                          .parse = parse_params<Params, parse>,
                                          .shape = shape_plain<int64_t, shape<int64_t>>,
                                          .kernels = kKernels,
                                          .scratch = scratch};
extern constexpr OpInference kPreviewFlexAttentionInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
