#include "ops/nn/recurrent.h"

#include <cmath>

#include "kernels/vmath.h"

namespace tessera {
namespace {

struct Named {
  std::string_view name;  // lower case
  Activation::Kind kind;
  bool has_alpha, has_beta;
  float alpha, beta;  // defaults
};
using K = Activation::Kind;
constexpr Named kNamed[] = {
    {"relu", K::relu, false, false, 0, 0},
    {"tanh", K::tanh, false, false, 0, 0},
    {"sigmoid", K::sigmoid, false, false, 0, 0},
    {"affine", K::affine, true, true, 1, 0},
    {"leakyrelu", K::leaky_relu, true, false, 0.01f, 0},
    {"thresholdedrelu", K::thresholded_relu, true, false, 1, 0},
    {"scaledtanh", K::scaled_tanh, true, true, 1, 1},
    {"hardsigmoid", K::hard_sigmoid, true, true, 0.2f, 0.5f},
    {"elu", K::elu, true, false, 1, 0},
    {"softsign", K::softsign, false, false, 0, 0},
    {"softplus", K::softplus, false, false, 0, 0},
};

const Named* named(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Named& n : kNamed)
    if (n.name == name) return &n;
  return nullptr;
}

template <class T>
T value_of(const Activation& f, T x) {
  const T alpha = static_cast<T>(f.alpha), beta = static_cast<T>(f.beta);
  switch (f.kind) {
    case K::relu: return x > 0 || x != x ? x : T{0};
    case K::tanh: return std::tanh(x);
    case K::sigmoid: return 1 / (1 + std::exp(-x));
    case K::affine: return alpha * x + beta;
    case K::leaky_relu: return x >= 0 ? x : alpha * x;
    case K::thresholded_relu: return x > alpha || x != x ? x : T{0};
    case K::scaled_tanh: return alpha * std::tanh(beta * x);
    case K::hard_sigmoid: return std::min(std::max(alpha * x + beta, T{0}), T{1});
    case K::elu: return x >= 0 ? x : alpha * (std::exp(x) - 1);
    case K::softsign: return x / (1 + std::abs(x));
    case K::softplus: return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

}  // namespace

template <class T>
void Activation::apply(Target target, T* x, int64_t n, float clip) const {
  if (clip > 0)
    for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], static_cast<T>(-clip), static_cast<T>(clip));
  if constexpr (std::is_same_v<T, float>) {
    if (kind == Kind::sigmoid) return unary_f32(target, Unary::sigmoid, x, x, n);
    if (kind == Kind::tanh) return unary_f32(target, Unary::tanh, x, x, n);
  }
  for (int64_t i = 0; i < n; ++i) x[i] = value_of(*this, x[i]);
}
template void Activation::apply(Target, float*, int64_t, float) const;
template void Activation::apply(Target, double*, int64_t, float) const;

Status parse_recurrent(Attrs& a, RecurrentParams& p, std::span<const Activation::Kind> defaults) {
  static constexpr std::string_view kDirections[] = {"forward", "reverse", "bidirectional"};
  int direction = 0;
  a.get_choice("direction", direction, kDirections);
  p.direction = static_cast<RecurrentParams::Direction>(direction);
  a.get("hidden_size", p.hidden);
  if (p.hidden < 0 || (a.has("hidden_size") && p.hidden == 0)) return a.refuse("hidden_size", "at least 1");
  a.get("clip", p.clip);
  if (!(p.clip >= 0)) return a.refuse("clip", "a number of at least 0");
  a.get("layout", p.batch_first);
  a.get("input_forget", p.input_forget);
  a.get("linear_before_reset", p.linear_before_reset);
  std::vector<std::string> names;
  std::vector<float> alpha, beta;
  a.get("activations", names);
  a.get("activation_alpha", alpha);
  a.get("activation_beta", beta);
  const size_t each = defaults.size(), wanted = each * static_cast<size_t>(p.directions());
  // RNN's default lists both directions whatever the direction is.
  if (!names.empty() && names.size() != wanted && names.size() != 2 * each)
    return a.refuse("activations", format("{} functions", wanted));
  // Parameters are handed out in order, to the functions that have one.
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < wanted; ++i) {
    const Named* f = nullptr;
    if (names.empty())
      f = &kNamed[static_cast<size_t>(defaults[i % each])];
    else
      f = named(names[i]);
    if (!f) return invalid_graph("attribute 'activations' has {}, which is no activation function", quote(names[i]));
    Activation act{f->kind, f->alpha, f->beta};
    if (f->has_alpha && next_alpha < alpha.size()) act.alpha = alpha[next_alpha++];
    if (f->has_beta && next_beta < beta.size()) act.beta = beta[next_beta++];
    p.activations.push_back(act);
  }
  return {};
}

namespace recurrent {

void multiply(const Call& call, int64_t m, const float* a, int64_t lda, const Weights<float>& w, float* y, int64_t ldy,
              const float* add, int64_t add_row) {
  GemmEpilogue e;
  e.c_in = add;
  e.c_row_stride = add_row;
  e.c_col_stride = 1;
  gemm_f32(call.target(), call.threads(), m, w.n, w.k, a, lda, false, GemmPanels(w.data, w.type), y, ldy, e);
}

void multiply(const Call& call, int64_t m, const double* a, int64_t lda, const Weights<double>& w, double* y,
              int64_t ldy, const double* add, int64_t add_row) {
  const auto* rows = static_cast<const double*>(w.data);
  call.parallel(m, [&](int64_t i, int) {
    for (int64_t j = 0; j < w.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < w.k; ++p) sum += a[i * lda + p] * rows[j * w.k + p];
      y[i * ldy + j] = sum + (add ? add[i * add_row + j] : 0);
    }
  });
}

namespace {

// fn(first row, rows) for each part.
template <class F>
void each_part(std::span<const int64_t> cuts, F&& fn) {
  int64_t first = 0;
  for (const int64_t end : cuts) {
    fn(first, end - first);
    first = end;
  }
}

int64_t direction_bytes(const Shape& w, std::span<const int64_t> cuts, PanelType type) {
  int64_t bytes = 0;
  each_part(cuts, [&](int64_t, int64_t n) { bytes += static_cast<int64_t>(gemm_packed_bytes(n, w[2], type)); });
  return bytes;
}

}  // namespace

int64_t packed_bytes(const Shape& w, std::span<const int64_t> cuts, PanelType type) {
  return w.rank() == 3 ? w[0] * direction_bytes(w, cuts, type) : 0;
}

void pack(const Shape& w, std::span<const int64_t> cuts, PanelType type, const void* from, void* out, int threads) {
  const auto* rows = static_cast<const std::byte*>(from);
  auto* to = static_cast<std::byte*>(out);
  const int64_t row_bytes = w[2] * (type == PanelType::f32 ? 4 : 2);
  for (int64_t d = 0; d < w[0]; ++d)
    each_part(cuts, [&](int64_t first, int64_t n) {
      gemm_pack_b(type, rows + (d * w[1] + first) * row_bytes, w[2], true, w[2], n, to, threads);
      to += gemm_packed_bytes(n, w[2], type);
    });
}

template <class T>
Status WeightSet<T>::load(Call& call, int i, std::span<const int64_t> cuts) {
  const Shape& w = call.shape(i);
  k_ = w[2];
  cuts_.assign(cuts.begin(), cuts.end());
  if constexpr (std::is_same_v<T, float>) {
    data_ = static_cast<const std::byte*>(call.packed(i));
    type_ = data_ ? panel_type(call.dtype(i)) : PanelType::f32;
    stride_ = direction_bytes(w, cuts, type_);
    if (data_) return {};
    TRY_ASSIGN(room, Tensor::allocate(DType::u8, Shape{w[0] * stride_}));
    own_ = std::move(room);
    pack(w, cuts, type_, call.in(i), own_.mutable_data(), call.threads());
    data_ = static_cast<const std::byte*>(own_.data());
  } else {
    stride_ = w[1] * w[2] * static_cast<int64_t>(sizeof(T));
    data_ = call.in<std::byte>(i);
  }
  return {};
}

template <class T>
Weights<T> WeightSet<T>::part(int64_t direction, size_t part) const {
  const std::byte* at = data_ + direction * stride_;
  int64_t first = 0;
  for (size_t i = 0; i < part; ++i) {
    const int64_t n = cuts_[i] - first;
    at += std::is_same_v<T, float> ? static_cast<int64_t>(gemm_packed_bytes(n, k_, type_))
                                   : n * k_ * static_cast<int64_t>(sizeof(T));
    first = cuts_[i];
  }
  return {at, cuts_[part] - first, k_, type_};
}
template class WeightSet<float>;
template class WeightSet<double>;

int64_t room_bytes(const Sizes& s, int64_t states, int64_t widths) {
  const int64_t elements = round_up(s.block() * s.batch * s.width(), 16) + widths * round_up(s.width(), 16) +
                           states * round_up(s.states(), 16);
  return elements * static_cast<int64_t>(sizeof(double));
}

Status check_lengths(Call& call, const Sizes& s) {
  for (int64_t b = 0; call.has(kLengths) && b < s.batch; ++b) {
    const int32_t n = call.in<int32_t>(kLengths)[b];
    if (n < 0 || n > s.steps) return call.refuse(kLengths, "lengths from 0 to {} (element {} is {})", s.steps, b, n);
  }
  return {};
}

int64_t whole_bytes(const PackCall& c, int i) {
  const Shape& w = c.shape(i);
  const int64_t cuts[] = {w.rank() == 3 ? w[1] : 0};
  return packed_bytes(w, cuts, panel_type(c.dtype(i)));
}
void pack_whole(const PackCall& c, int i, void* out) {
  const int64_t cuts[] = {c.shape(i)[1]};
  pack(c.shape(i), cuts, panel_type(c.dtype(i)), c.in<void>(i), out, c.threads);
}

}  // namespace recurrent
}  // namespace tessera
