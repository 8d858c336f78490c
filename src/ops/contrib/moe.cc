// MoE and QMoE — a mixture of experts: each token is fed through the k networks of two layers that its router likes
// best, and their results are added by the router's weights. QMoE has its weights quantized, in blocks or by rows.
#include <cmath>
#include <numeric>

#include "core/convert.h"
#include "kernels/gemm.h"
#include "kernels/vmath.h"
#include "ops/agree.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr int kNoInput = 64;

// The inputs of one layer.
struct Layer {
  int weights, bias, scales = kNoInput, zeros = kNoInput;
};
struct Places {
  Layer fc1, fc2, fc3;
  int router_weights;
};
constexpr Places kPlain{{2, 3}, {4, 5}, {6, 7}, kNoInput};
constexpr Places kQuantized{{2, 4, 3, 11}, {5, 7, 6, 12}, {8, 10, 9, 13}, 14};
constexpr Arity kPlainArity{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(4), 8};
constexpr Arity kQuantizedArity{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(5) | in_arg(6), 21};

enum Activation { kRelu, kGelu, kSilu, kSwiglu, kIdentity };

struct Params {
  int64_t k = 1, block = 0;
  int64_t bits[3] = {32, 32, 32};  // of an element of each layer
  int activation = kRelu, fusion = 0;
  bool normalize = false;    // the weights of the chosen experts to a sum of 1
  bool soft_chosen = false;  // so are weights that the router did not give in an input of their own, in any case
  float alpha = 1, beta = 0, limit = INFINITY;

  // Both parts of the gate come from the first layer.
  bool fused() const { return activation == kSwiglu && fusion != 0; }
};

Status parse_common(Attrs& a, Params& p) {
  static constexpr std::string_view kNames[] = {"relu", "gelu", "silu", "swiglu", "identity"};
  bool mixer = false;
  a.get("k", p.k);
  a.get_choice("activation_type", p.activation, kNames);
  a.get("swiglu_fusion", p.fusion);
  a.get("normalize_routing_weights", p.normalize);
  a.get("activation_alpha", p.alpha);
  a.get("activation_beta", p.beta);
  a.get("swiglu_limit", p.limit);
  a.get("use_sparse_mixer", mixer);
  if (p.k < 1) return a.refuse("k", "at least 1");
  if (p.fusion < 0 || p.fusion > 2) return a.refuse("swiglu_fusion", "0, 1 or 2");
  if (mixer) return a.refuse("use_sparse_mixer", "0");
  if (std::isnan(p.limit)) return a.refuse("swiglu_limit", "a number");
  return {};
}

bool given(const Attrs& a, int i) {
  return static_cast<size_t>(i) < a.node().inputs.size() && a.node().inputs[static_cast<size_t>(i)] != ir::kNone;
}

Status check_third(const Places& at, const Attrs& a, const Params& p) {
  const bool third = given(a, at.fc3.weights);
  if (p.fused() && third) return invalid_graph("fc3_experts_weights beside a fused gate");
  if (p.activation == kSwiglu && !p.fused() && !third) return invalid_graph("swiglu wants fc3_experts_weights");
  return {};
}

Status parse_plain(Attrs& a, Params& p) {
  TRY(parse_common(a, p));
  return check_third(kPlain, a, p);
}

Status parse_quantized(Attrs& a, Params& p) {
  TRY(parse_common(a, p));
  p.soft_chosen = true;
  std::string type = "int";
  int64_t bits = 4, prepacked = -1;
  a.get("quant_type", type);
  a.get("expert_weight_bits", bits);
  a.get("block_size", p.block);
  a.get("weights_prepacked", prepacked);
  static constexpr const char* kOverrides[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                               "fc3_expert_weight_bits"};
  for (int i = 0; i < 3; ++i) {
    p.bits[i] = bits;
    a.get(kOverrides[i], p.bits[i]);
    if (p.bits[i] != 2 && p.bits[i] != 4 && p.bits[i] != 8) return a.refuse("expert_weight_bits", "2, 4 or 8");
  }
  if (type != "int") return a.refuse("quant_type", "int");
  if (prepacked > 0) return a.refuse("weights_prepacked", "0 or -1");
  if (p.block < 0 || p.block > INT32_MAX || (p.block & (p.block - 1)) || (p.block && p.block < 16))
    return a.refuse("block_size", "a power of two from 16 on");
  for (int i = 15; i < 21; ++i)
    if (given(a, i)) return not_implemented("input {}: scales of float experts", i);
  if (given(a, kQuantized.fc3.weights) && !given(a, kQuantized.fc3.scales)) return invalid_graph("fc3 has no scales");
  return check_third(kQuantized, a, p);
}

// Weights [experts, rows, columns], elements packed along the columns, and what belongs to them.
template <class D>
Status check_layer(const Params& p, ShapeCall<D>& c, const Layer& layer, int64_t bits, const D& experts, const D& rows,
                   const D& columns) {
  const int64_t each = bits == 32 ? 1 : 8 / bits;
  const int w = layer.weights;
  if (c.rank(w) != 3 || !agree(c.dim(w, 0), experts) || !agree(c.dim(w, 1), rows) ||
      !agree(c.dim(w, 2) * D(each), columns))
    return c.refuse(w, "[experts, outputs, inputs] of the layer");
  if (c.has(layer.bias) &&
      (c.rank(layer.bias) != 2 || !agree(c.dim(layer.bias, 0), experts) || !agree(c.dim(layer.bias, 1), rows)))
    return c.refuse(layer.bias, "[experts, outputs] of the layer");
  if (bits == 32) return {};
  if (p.block && known(columns) && number(columns) % p.block) return c.refuse(w, format("blocks of {}", p.block));
  const D blocks = p.block ? floor_div(columns, D(p.block)) : D(1);
  const int s = layer.scales, rank = p.block ? 3 : 2;
  if (c.rank(s) != rank || !agree(c.dim(s, 0), experts) || !agree(c.dim(s, 1), rows) ||
      (p.block && !agree(c.dim(s, 2), blocks)))
    return c.refuse(s, "a scale for each row of the layer, or each block of one");
  if (!c.has(layer.zeros)) return {};
  const int z = layer.zeros;
  const auto bytes = [&](const D& n) { return floor_div(n + D(each - 1), D(each)); };
  const bool good =
      c.rank(z) == rank && agree(c.dim(z, 0), experts) &&
      (p.block ? agree(c.dim(z, 1), rows) && agree(c.dim(z, 2), bytes(blocks)) : agree(c.dim(z, 1), bytes(rows)));
  return good ? Status{} : c.refuse(z, "a zero point for each scale");
}

template <class D, const Places& P>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank != 2 && rank != 3) return c.refuse(0, "[tokens, size] or [batch, length, size]");
  const D hidden = c.dim(0, rank - 1), tokens = rank == 2 ? c.dim(0, 0) : c.dim(0, 0) * c.dim(0, 1);
  if (c.rank(1) != 2 || !agree(c.dim(1, 0), tokens)) return c.refuse(1, "a row for each token");
  const D experts = c.dim(1, 1);
  if (known(experts) && number(experts) < p.k) return c.refuse(1, format("at least {} experts", p.k));
  if (c.rank(P.fc2.weights) != 3) return c.refuse(P.fc2.weights, "[experts, outputs, inputs] of the layer");
  const D inner = c.dim(P.fc2.weights, 2) * D(p.bits[1] == 32 ? 1 : 8 / p.bits[1]);
  TRY(check_layer(p, c, P.fc1, p.bits[0], experts, p.fused() ? inner + inner : inner, hidden));
  TRY(check_layer(p, c, P.fc2, p.bits[1], experts, hidden, inner));
  if (c.has(P.fc3.weights)) TRY(check_layer(p, c, P.fc3, p.bits[2], experts, inner, hidden));
  if (c.has(P.router_weights) && (c.rank(P.router_weights) != 2 || !agree(c.dim(P.router_weights, 0), tokens) ||
                                  !agree(c.dim(P.router_weights, 1), experts)))
    return c.refuse(P.router_weights, "the shape of input 1");
  return c.set(0, c.dims(0));
}

class Mixture {
 public:
  Mixture(const Places& at, const Params& p, Call& call)
      : at_(at), p_(p), call_(call), experts_(call.shape(1)[1]), tokens_(call.shape(1)[0]) {
    const Shape& x = call.shape(0);
    hidden_ = x[x.rank() - 1];
    wide_ = call.shape(at.fc1.weights)[1];
    inner_ = p.fused() ? wide_ / 2 : wide_;
  }

  Status run() {
    float* y = call_.out<float>(0);
    std::fill_n(y, tokens_ * hidden_, 0.f);
    route();
    for (int64_t e = 0; e < experts_; ++e) {
      if (call_.cancelled()) return call_.stopped();
      if (!chosen_[static_cast<size_t>(e)].empty()) TRY(feed(e, chosen_[static_cast<size_t>(e)], y));
    }
    return {};
  }

 private:
  struct Share {
    int64_t token;
    float weight;
  };

  // Which tokens go to which expert.
  void route() {
    chosen_.resize(static_cast<size_t>(experts_));
    std::vector<int64_t> order(static_cast<size_t>(experts_));
    std::vector<float> weights(static_cast<size_t>(experts_));
    for (int64_t t = 0; t < tokens_; ++t) {
      const float* probs = call_.in<float>(1) + t * experts_;
      std::iota(order.begin(), order.end(), int64_t{0});
      // NaNs go last, whatever the sign: a strict order in any case.
      const auto before = [&](int64_t a, int64_t b) {
        const bool bad_a = std::isnan(probs[a]), bad_b = std::isnan(probs[b]);
        if (bad_a != bad_b) return bad_b;
        return probs[a] != probs[b] && !bad_a ? probs[a] > probs[b] : a < b;
      };
      std::partial_sort(order.begin(), order.begin() + p_.k, order.end(), before);
      const float* given = call_.maybe<float>(at_.router_weights);
      const bool normalize = p_.normalize || (p_.soft_chosen && !given);
      if (given)
        std::copy_n(given + t * experts_, experts_, weights.begin());
      else
        softmax(probs, weights);
      float sum = 0;
      for (int64_t i = 0; i < p_.k; ++i) sum += weights[static_cast<size_t>(order[static_cast<size_t>(i)])];
      for (int64_t i = 0; i < p_.k; ++i) {
        const int64_t e = order[static_cast<size_t>(i)];
        const float w = weights[static_cast<size_t>(e)];
        chosen_[static_cast<size_t>(e)].push_back({t, normalize ? w / sum : w});
      }
    }
  }

  void softmax(const float* probs, std::vector<float>& out) const {
    const float most = *std::max_element(probs, probs + experts_);
    float sum = 0;
    for (size_t e = 0; e < out.size(); ++e) sum += out[e] = std::exp(probs[e] - most);
    for (float& v : out) v /= sum;
  }

  // One expert's tokens through its layers.
  Status feed(int64_t e, const std::vector<Share>& shares, float* y) {
    const auto rows = static_cast<int64_t>(shares.size());
    std::vector<float> x(static_cast<size_t>(rows * hidden_)), h(static_cast<size_t>(rows * wide_)), gate,
        out(x.size());
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(call_.in<float>(0) + shares[static_cast<size_t>(r)].token * hidden_, hidden_, x.data() + r * hidden_);
    TRY(multiply(at_.fc1, p_.bits[0], e, rows, wide_, hidden_, x, h));
    if (call_.has(at_.fc3.weights)) {
      gate.resize(h.size());
      TRY(multiply(at_.fc3, p_.bits[2], e, rows, inner_, hidden_, x, gate));
    }
    activate(rows, h, gate);
    TRY(multiply(at_.fc2, p_.bits[1], e, rows, hidden_, inner_, h, out));
    for (int64_t r = 0; r < rows; ++r) {
      const Share& s = shares[static_cast<size_t>(r)];
      for (int64_t j = 0; j < hidden_; ++j)
        y[s.token * hidden_ + j] += s.weight * out[static_cast<size_t>(r * hidden_ + j)];
    }
    return {};
  }

  // y = x * weights' + bias
  Status multiply(const Layer& layer, int64_t bits, int64_t e, int64_t m, int64_t n, int64_t k,
                  const std::vector<float>& x, std::vector<float>& y) {
    const auto bytes = static_cast<int64_t>(gemm_packed_bytes(n, k));
    const auto* panel = static_cast<const float*>(bits == 32 ? call_.packed(layer.weights) : nullptr);
    if (panel) {
      panel += e * bytes / static_cast<int64_t>(sizeof(float));
    } else {
      if (panel_.bytes() < bytes) {
        TRY_ASSIGN(room, Tensor::allocate(DType::u8, Shape{bytes}));
        panel_ = std::move(room);
      }
      auto* to = static_cast<float*>(panel_.mutable_data());
      if (bits == 32) {
        gemm_pack_b(call_.in<float>(layer.weights) + e * n * k, k, true, k, n, to, call_.threads());
      } else {
        unpacked_.resize(static_cast<size_t>(n * k));
        unpack(layer, bits, e, n, k);
        gemm_pack_b(unpacked_.data(), k, true, k, n, to, call_.threads());
      }
      panel = to;
    }
    GemmEpilogue epilogue;
    if (const float* bias = call_.maybe<float>(layer.bias)) epilogue.c_in = bias + e * n;
    epilogue.c_col_stride = 1;
    gemm_f32(call_.target(), call_.threads(), m, n, k, x.data(), k, false, panel, y.data(), n, epilogue);
    return {};
  }

  static float bits_at(const uint8_t* data, int64_t i, int64_t bits) {
    const int64_t each = 8 / bits;
    return static_cast<float>(data[i / each] >> (i % each * bits) & ((1 << bits) - 1));
  }

  // The quantized weights of expert e as floats.
  void unpack(const Layer& layer, int64_t bits, int64_t e, int64_t n, int64_t k) {
    const int64_t block = p_.block ? p_.block : std::max<int64_t>(1, k), blocks = ceil_div(k, block), each = 8 / bits;
    const auto* weights = call_.in<uint8_t>(layer.weights) + e * n * k / each;
    const auto* zeros = call_.maybe<uint8_t>(layer.zeros);
    const float* scales = call_.in<float>(layer.scales) + e * n * blocks;
    call_.parallel(n, [&](int64_t row, int) {
      for (int64_t b = 0; b < blocks; ++b) {
        float zero = static_cast<float>(1 << (bits - 1));
        if (zeros && p_.block)
          zero = bits_at(zeros + (e * n + row) * ceil_div(blocks, each), b, bits);
        else if (zeros)
          zero = bits_at(zeros + e * ceil_div(n, each), row, bits);
        const float scale = scales[row * blocks + b];
        for (int64_t j = b * block; j < std::min(k, (b + 1) * block); ++j)
          unpacked_[static_cast<size_t>(row * k + j)] = (bits_at(weights, row * k + j, bits) - zero) * scale;
      }
    });
  }

  // h becomes [rows, inner].
  void activate(int64_t rows, std::vector<float>& h, const std::vector<float>& gate) const {
    const auto n = static_cast<int64_t>(h.size());
    if (p_.activation == kSwiglu) {
      std::vector<float> out(static_cast<size_t>(rows * inner_));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < inner_; ++j) {
          const float* row = h.data() + r * wide_;
          const float g = p_.fusion == 1 ? row[2 * j] : row[j];
          const float l = p_.fusion == 1   ? row[2 * j + 1]
                          : p_.fusion == 2 ? row[inner_ + j]
                                           : gate[static_cast<size_t>(r * inner_ + j)];
          out[static_cast<size_t>(r * inner_ + j)] = swiglu(g, l);
        }
      h = std::move(out);
      return;
    }
    if (p_.activation == kRelu) unary_f32(call_.target(), Unary::relu, h.data(), h.data(), n);
    if (p_.activation == kGelu) unary_f32(call_.target(), Unary::gelu_tanh, h.data(), h.data(), n);
    if (p_.activation == kSilu)
      for (float& v : h) v = v / (1 + std::exp(-v));
    for (size_t i = 0; i < gate.size(); ++i) h[i] *= gate[i];
  }

  float swiglu(float g, float l) const {
    g = std::min(g, p_.limit);
    l = std::clamp(l, -p_.limit, p_.limit);
    return g / (1 + std::exp(-p_.alpha * g)) * (l + p_.beta);
  }

  const Places& at_;
  const Params& p_;
  Call& call_;
  int64_t experts_, tokens_, hidden_, wide_, inner_;
  std::vector<std::vector<Share>> chosen_;  // per expert
  std::vector<float> unpacked_;
  Tensor panel_;
};

template <const Places& P>
Status compute(const Params& p, Call& call) {
  return Mixture(P, p, call).run();
}

// All experts of a layer, one panel after the other.
template <int W>
int64_t packed_bytes(const PackCall& c) {
  const Shape& w = c.shape(W);
  int64_t all;
  if (w.rank() != 3 || !checked_mul(w[0], static_cast<int64_t>(gemm_packed_bytes(w[1], w[2])), &all)) return 0;
  return all;
}
template <int W>
void pack(const PackCall& c, void* out) {
  const Shape& w = c.shape(W);
  const auto bytes = static_cast<int64_t>(gemm_packed_bytes(w[1], w[2]));
  for (int64_t e = 0; e < w[0]; ++e)
    gemm_pack_b(c.in<float>(W) + e * w[1] * w[2], w[2], true, w[2], w[1],
                reinterpret_cast<float*>(static_cast<std::byte*>(out) + e * bytes), c.threads);
}
template <int W>
constexpr Packing experts() {
  return {W, "F32.T.P16.experts", packed_bytes<W>, pack<W>};
}

constexpr Packing kPacks[] = {experts<2>(), experts<4>(), experts<6>()};
constexpr TypeRule kPlainTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(5) | in_arg(6) | in_arg(7) | out_arg(0),
     set_of(DType::f32), kHalfFloats}};
constexpr TypeRule kQuantizedTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(4) | in_arg(7) | in_arg(10) | in_arg(14) | out_arg(0), set_of(DType::f32),
     kHalfFloats},
    {in_arg(3) | in_arg(6) | in_arg(9), set_of(DType::f32), kHalfFloats},
    {in_arg(2) | in_arg(5) | in_arg(8) | in_arg(11) | in_arg(12) | in_arg(13), set_of(DType::u8)}};
constexpr Kernel kPlainKernels[] = {{kPlainTypes, compute_with<Params, compute<kPlain>>}};
constexpr Kernel kQuantizedKernels[] = {{kQuantizedTypes, compute_with<Params, compute<kQuantized>>}};

}  // namespace

extern constexpr Op kMicrosoftMoE{.domain = kDomain,
                                  .name = "MoE",
                                  .versions = kVersions,
                                  .parse = parse_checked<Params, kPlainArity, parse_plain>,
                                  .shape = shape_with<Params, int64_t, shape<int64_t, kPlain>>,
                                  .kernels = kPlainKernels,
                                  .packs = kPacks};
extern constexpr Op kMicrosoftQMoE{.domain = kDomain,
                                   .name = "QMoE",
                                   .versions = kVersions,
                                   .parse = parse_checked<Params, kQuantizedArity, parse_quantized>,
                                   .shape = shape_with<Params, int64_t, shape<int64_t, kQuantized>>,
                                   .kernels = kQuantizedKernels};
extern constexpr OpInference kMicrosoftMoEInference{.shape = shape_with<Params, Dim, shape<Dim, kPlain>>};
extern constexpr OpInference kMicrosoftQMoEInference{.shape = shape_with<Params, Dim, shape<Dim, kQuantized>>};

}  // namespace tessera
