// Recipes for matrix products, convolutions, pools, normalisations, recurrences, quantisation and images.
#include <algorithm>

#include "random_recipes.h"

namespace tessera::testing {
namespace {

using Node = RandomNode;

bool flip(Maker& m) { return m.chance(0.5); }
int64_t prefer(Maker& m, int64_t usual, int64_t low, int64_t high) {
  return m.chance(0.6) ? usual : m.between(low, high);
}

// Shapes of the two sides of a product; most often the left one exists already.
std::pair<Dims, Dims> product_shapes(Maker& m, const Dims& left) {
  Dims a = left, b;
  if (a.empty()) a = m.dims(1);
  const int64_t k = a.back();
  if (a.size() > 2 && flip(m)) b.assign(a.begin(), a.end() - 2);
  for (int64_t& d : b)
    if (m.chance(0.2)) d = 1;
  b.push_back(k);
  if (m.chance(0.9)) b.push_back(m.dim(m.chance(0.95) ? 1 : 0));
  if (b.size() > 2 && b.size() == a.size() + 0 && b.back() == k && b[b.size() - 2] != k) b.resize(1);
  return {a, b};
}

bool matmul(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const std::string a = m.any(t, 1, 4);
  const DType u = s.input(1)->constraint == s.input(0)->constraint ? t : m.type(*s.input(1));
  n.inputs = {a, m.fit(u, product_shapes(m, m.shape(a)).second)};
  if (s.name() == "MatMulInteger" && flip(m)) {
    n.inputs.push_back(m.fit(t, {}));
    if (flip(m)) n.inputs.push_back(m.fit(u, {}));
  }
  return true;
}

bool gemm(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const std::string a = m.any(t, 2, 2);
  const bool left = flip(m), right = flip(m);
  const Dims shape = m.shape(a);
  const int64_t rows = shape[left ? 1 : 0], k = shape[left ? 0 : 1], columns = m.dim(1);
  n.inputs = {a, m.fit(t, right ? Dims{columns, k} : Dims{k, columns})};
  if (flip(m) || s.min_inputs() == 3) n.inputs.push_back(m.fit(t, beside(m, {rows, columns}, true)));
  if (left) set(n, "transA", 1);
  if (right) set(n, "transB", 1);
  if (flip(m)) set_real(n, "alpha", 0.5);
  if (flip(m)) set_real(n, "beta", 2);
  return true;
}

// Attributes of a window over `spatial` axes of these sizes; the kernel's sizes come back.
Dims window(Maker& m, const Signature& s, Node& n, const Dims& spatial, bool automatic = true) {
  Dims kernel, strides, dilations, pads(spatial.size() * 2);
  for (const int64_t d : spatial) {
    kernel.push_back(std::min<int64_t>(m.between(1, 3), std::max<int64_t>(d, 1)));
    strides.push_back(m.between(1, 2));
    dilations.push_back(m.chance(0.8) ? 1 : 2);
  }
  for (size_t i = 0; i < pads.size(); ++i) pads[i] = m.between(0, kernel[i % kernel.size()] - 1);
  set_list(n, "kernel_shape", kernel);
  if (flip(m)) set_list(n, "strides", strides);
  const bool dilated = s.attribute("dilations") && flip(m);
  if (dilated) set_list(n, "dilations", dilations);
  if (automatic && m.chance(0.2)) {
    static const std::vector<std::string> modes = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    set_text(n, "auto_pad", m.one_of(modes));
  } else if (flip(m)) {
    set_list(n, "pads", pads);
  }
  return kernel;
}

bool conv(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int spatial = static_cast<int>(m.between(1, 3));
  const int64_t group = prefer(m, 1, 1, 3), per_group = m.between(1, 3), out_per_group = m.between(1, 4);
  Dims x = {prefer(m, 1, 0, 2), group * per_group};
  for (int i = 0; i < spatial; ++i) x.push_back(m.large && spatial < 3 ? m.between(3, 24) : m.between(1, 7));
  const Dims kernel = window(m, s, n, Dims(x.begin() + 2, x.end()));
  const bool transposed = s.name() == "ConvTranspose";
  Dims w = transposed ? Dims{group * per_group, out_per_group} : Dims{group * out_per_group, per_group};
  w.insert(w.end(), kernel.begin(), kernel.end());
  n.inputs = {m.fit(t, x)};
  const DType u = s.input(1)->constraint == s.input(0)->constraint ? t : m.type(*s.input(1));
  n.inputs.push_back(m.chance(0.7) ? m.constant(m.tensor(u, w)) : m.fit(u, w));
  if (group != 1) set(n, "group", group);
  if (s.name() == "ConvInteger") {
    if (flip(m)) n.inputs.push_back(m.fit(t, {}));
  } else if (flip(m)) {
    n.inputs.push_back(m.fit(t, {group * out_per_group}));
  }
  return true;
}

bool pool(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  Dims x = {prefer(m, 1, 0, 2), m.between(1, 3)};
  for (int64_t i = m.between(1, 3); i > 0; --i) x.push_back(m.between(1, 8));
  n.inputs = {m.fit(t, x)};
  window(m, s, n, Dims(x.begin() + 2, x.end()));
  maybe(m, s, n, "ceil_mode", flip(m), 0.3);
  maybe(m, s, n, "count_include_pad", flip(m));
  maybe(m, s, n, "storage_order", flip(m), 0.2);
  maybe(m, s, n, "p", m.between(1, 3));
  if (s.outputs().size() == 2 && m.chance(0.3)) n.outputs = {"v", "i"};
  return true;
}

bool global_pool(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 3)};
  return true;
}

// Scale and bias per channel.
bool channel_norm(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, s.name() == "BatchNormalization" ? 2 : 3)};
  const int64_t channels = m.shape(n.inputs[0])[1];
  n.inputs.push_back(m.fit(t, {channels}));
  n.inputs.push_back(m.fit(t, {channels}));
  if (s.name() == "BatchNormalization") {
    const DType u = s.input(3)->constraint == s.input(0)->constraint ? t : m.type(*s.input(3));
    n.inputs.push_back(m.fit(u, {channels}));
    n.inputs.push_back(m.constant(m.reals(u, {channels}, 0.1, 2)));
    if (s.attribute("training_mode") && m.chance(0.3)) {
      set(n, "training_mode", 1);
      n.outputs = {"y", "m", "v"};
    }
  }
  return true;
}

bool group_norm(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t groups = m.between(1, 3), channels = groups * m.between(1, 3);
  Dims x = m.dims(static_cast<int>(m.between(3, 4)), 1);
  x[1] = channels;
  n.inputs = {m.fit(t, x), m.fit(t, {s.since_version < 21 ? groups : channels}),
              m.fit(t, {s.since_version < 21 ? groups : channels})};
  set(n, "num_groups", groups);
  return true;
}

bool layer_norm(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1)};
  const Dims x = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(x.size());
  const int64_t axis = some_axis(m, rank);
  const Dims tail(x.begin() + (axis < 0 ? axis + rank : axis), x.end());
  set(n, "axis", axis);
  const DType u = s.input(1)->constraint == s.input(0)->constraint ? t : m.type(*s.input(1));
  n.inputs.push_back(m.fit(u, beside(m, tail, true)));
  if (s.inputs().size() > 2 && flip(m)) n.inputs.push_back(m.fit(t, beside(m, tail, true)));
  if (s.outputs().size() > 1 && m.chance(0.3)) n.outputs = {"y", flip(m) ? "m" : "", "d"};
  return true;
}

bool lrn(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 3)};
  set(n, "size", m.between(1, 4));
  return true;
}

bool mvn(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  Dims axes = some_axes(m, m.rank(n.inputs[0]));
  if (axes.empty()) axes = {0};
  set_list(n, "axes", axes);
  return true;
}

bool dropout(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  if (flip(m)) n.outputs = {"y", "m"};
  if (s.attribute("seed")) set(n, "seed", m.between(1, 9));
  if (s.inputs().size() == 3 && flip(m)) {
    n.inputs.push_back(m.constant(m.reals(DType::f32, {}, 0.1, 0.9)));
    n.inputs.push_back(m.numbers({flip(m)}, DType::boolean, true));
  }
  return true;
}

bool random(Maker& m, const Signature& s, Node& n) {
  set_real(n, "seed", 1 + m.below(9));
  if (s.inputs().empty())
    set_list(n, "shape", m.dims(m.below(4)));
  else
    n.inputs = {
        take(m, s, 0, 1, 4, s.name() == "RandomUniformLike" || s.name() == "RandomNormalLike" ? kFloats : kEveryType)};
  if (s.name() == "Bernoulli") n.inputs = {m.constant(m.reals(DType::f32, m.dims(2), 0, 1))};
  if (s.name() == "Multinomial") {
    n.inputs = {m.fit(DType::f32, {m.between(1, 3), m.between(1, 5)})};
    set(n, "sample_size", m.between(1, 4));
  }
  return true;
}

bool loss(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  Dims x = m.dims(static_cast<int>(m.between(2, 4)), 1), target = x;
  const int64_t classes = x[1];
  target.erase(target.begin() + 1);
  int64_t count = 1;
  for (const int64_t d : target) count *= d;
  Dims labels(static_cast<size_t>(count));
  for (int64_t& l : labels) l = m.between(0, classes - 1);
  const Tensor wanted = m.integers(flip(m) ? DType::i64 : DType::i32, target, labels);
  n.inputs = {m.fit(t, x), m.input(Value(wanted))};
  if (flip(m)) n.inputs.push_back(m.constant(m.reals(t, {classes}, 0.2, 2)));
  static const std::vector<std::string> reductions = {"none", "sum", "mean"};
  set_text(n, "reduction", m.one_of(reductions));
  if (flip(m)) set(n, "ignore_index", m.between(0, classes - 1));
  if (s.name() == "SoftmaxCrossEntropyLoss" && flip(m)) n.outputs = {"v", "l"};
  return true;
}

bool recurrent(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t gates = s.name() == "LSTM" ? 4 : s.name() == "GRU" ? 3 : 1;
  static const std::vector<std::string> directions = {"forward", "reverse", "bidirectional"};
  const std::string direction = m.one_of(directions);
  const int64_t d = direction == "bidirectional" ? 2 : 1, hidden = m.between(1, 5), batch = m.between(1, 3);
  const int64_t length = m.between(1, 4), width = m.between(1, 5);
  const bool batch_first = s.attribute("layout") && m.chance(0.2);
  n.inputs = {m.fit(t, batch_first ? Dims{batch, length, width} : Dims{length, batch, width}),
              m.constant(m.tensor(t, {d, gates * hidden, width})), m.constant(m.tensor(t, {d, gates * hidden, hidden})),
              flip(m) ? m.fit(t, {d, 2 * gates * hidden}) : ""};
  set(n, "hidden_size", hidden);
  set_text(n, "direction", direction);
  if (batch_first) set(n, "layout", 1);
  if (flip(m)) {
    Dims lengths;
    for (int64_t i = 0; i < batch; ++i) lengths.push_back(m.between(1, length));
    n.inputs.push_back(m.numbers(lengths, DType::i32));
    if (flip(m)) n.inputs.push_back(m.fit(t, batch_first ? Dims{batch, d, hidden} : Dims{d, batch, hidden}));
  }
  maybe(m, s, n, "linear_before_reset", flip(m));
  n.outputs = {flip(m) ? "y" : "", "h"};
  if (s.name() == "LSTM" && flip(m)) n.outputs.push_back("c");
  return true;
}

bool attention(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t batch = m.between(1, 2), heads = m.between(1, 3), q = m.between(1, 5), kv = m.between(1, 5);
  const int64_t size = m.between(1, 6), value = m.between(1, 6);
  n.inputs = {m.fit(t, {batch, heads, q, size}), m.fit(t, {batch, heads, kv, size}),
              m.fit(t, {batch, heads, kv, value})};
  if (flip(m)) n.inputs.push_back(m.fit(flip(m) ? t : DType::boolean, {q, kv}));
  maybe(m, s, n, "is_causal", flip(m));
  return true;
}

bool quantize(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const bool to = s.name() == "QuantizeLinear";
  n.inputs = {m.any(t, 0, 4)};
  const Dims x = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(x.size());
  Dims parameter;
  if (rank && flip(m)) {
    const int64_t axis = some_axis(m, rank);
    set(n, "axis", axis);
    parameter = {x[static_cast<size_t>(axis < 0 ? axis + rank : axis)]};
  }
  const bool shared = to && s.input(1)->constraint == s.input(0)->constraint;
  const DType scale = shared ? t : m.type(*s.input(1), kFloats);
  n.inputs.push_back(m.constant(m.reals(scale, parameter, 0.05, 0.5)));
  if (flip(m)) n.inputs.push_back(m.fit(to ? m.type(*s.input(2)) : t, parameter));
  return true;
}

bool qlinear_matmul(Maker& m, const Signature& s, Node& n) {
  const DType a = m.type(*s.input(0)), b = m.type(*s.input(3)), y = m.type(*s.input(7));
  const std::string left = m.any(a, 2, 4);
  const auto scale = [&] { return m.constant(m.reals(DType::f32, {}, 0.05, 0.5)); };
  Dims right = product_shapes(m, m.shape(left)).second;
  if (right.size() == 1) right.push_back(3);
  n.inputs = {left, scale(), m.fit(a, {}), m.fit(b, right), scale(), m.fit(b, {}), scale(), m.fit(y, {})};
  return true;
}

bool qlinear_conv(Maker& m, const Signature& s, Node& n) {
  const DType x = m.type(*s.input(0)), w = m.type(*s.input(3)), y = m.type(*s.input(7));
  const int64_t channels = m.between(1, 4), out = m.between(1, 4);
  const Dims shape = {1, channels, m.between(1, 7), m.between(1, 7)};
  const auto scale = [&](Dims d) { return m.constant(m.reals(DType::f32, d, 0.05, 0.5)); };
  const Dims kernel = window(m, s, n, {shape[2], shape[3]});
  const Dims per = flip(m) ? Dims{out} : Dims{};
  n.inputs = {
      m.fit(x, shape), scale({}),     m.fit(x, {}), m.constant(m.tensor(w, {out, channels, kernel[0], kernel[1]})),
      scale(per),      m.fit(w, per), scale({}),    m.fit(y, {})};
  if (flip(m)) n.inputs.push_back(m.fit(DType::i32, {out}));
  return true;
}

bool grid_sample(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0)), u = s.input(1)->constraint == s.input(0)->constraint ? t : m.type(*s.input(1));
  const int64_t batch = m.between(1, 2);
  n.inputs = {m.fit(t, {batch, m.between(1, 3), m.between(1, 5), m.between(1, 5)}),
              m.fit(u, {batch, m.between(1, 4), m.between(1, 4), 2})};
  static const std::vector<std::string> paddings = {"zeros", "border", "reflection"};
  set_text(n, "padding_mode", m.one_of(paddings));
  maybe(m, s, n, "align_corners", 1);
  return true;
}

bool affine_grid(Maker& m, const Signature& s, Node& n) {
  const int64_t batch = m.between(1, 2);
  n.inputs = {m.fit(m.type(*s.input(0)), {batch, 2, 3}), m.numbers({batch, 1, m.between(1, 5), m.between(1, 5)})};
  maybe(m, s, n, "align_corners", 1);
  return true;
}

bool roi_align(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t rois = m.between(0, 3);
  n.inputs = {m.fit(t, {1, m.between(1, 3), m.between(2, 6), m.between(2, 6)}), m.constant(m.reals(t, {rois, 4}, 0, 5)),
              m.numbers(Dims(static_cast<size_t>(rois), 0))};
  set(n, "output_height", m.between(1, 3));
  set(n, "output_width", m.between(1, 3));
  if (flip(m)) set_text(n, "mode", "max");
  set(n, "sampling_ratio", m.between(0, 2));
  return true;
}

bool nms(Maker& m, const Signature&, Node& n) {
  const int64_t batch = m.between(1, 2), boxes = m.between(0, 6);
  n.inputs = {m.fit(DType::f32, {batch, boxes, 4}), m.fit(DType::f32, {batch, m.between(1, 2), boxes}),
              m.numbers({m.between(0, 4)}), m.constant(m.reals(DType::f32, {1}, 0, 1))};
  if (flip(m)) n.inputs.push_back(m.fit(DType::f32, {1}));
  maybe(m, *spec::find_signature("", "NonMaxSuppression", 11), n, "center_point_box", 1);
  return true;
}

bool col2im(Maker& m, const Signature& s, Node& n) {
  const int64_t kernel = m.between(1, 2), height = m.between(2, 4), width = m.between(2, 4);
  const int64_t places = (height - kernel + 1) * (width - kernel + 1);
  n.inputs = {m.fit(m.type(*s.input(0)), {m.between(1, 2), kernel * kernel * m.between(1, 2), places}),
              m.numbers({height, width}), m.numbers({kernel, kernel})};
  return true;
}

bool det(Maker& m, const Signature& s, Node& n) {
  Dims shape = m.dims(m.below(3), 1);
  const int64_t size = m.between(1, 4);
  shape.insert(shape.end(), {size, size});
  n.inputs = {m.fit(m.type(*s.input(0)), shape)};
  return true;
}

bool rotary(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t batch = m.between(1, 2), heads = m.between(1, 2), length = m.between(1, 4), half = m.between(1, 3);
  n.inputs = {m.fit(t, {batch, heads, length, 2 * half}), m.fit(t, {batch, length, half}),
              m.fit(t, {batch, length, half})};
  maybe(m, s, n, "interleaved", 1);
  return true;
}

bool deform_conv(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t channels = m.between(1, 3), height = m.between(2, 4), width = m.between(2, 4), k = m.between(1, 2);
  const int64_t oh = height - k + 1, ow = width - k + 1;
  n.inputs = {m.fit(t, {1, channels, height, width}), m.fit(t, {2, channels, k, k}), m.fit(t, {1, 2 * k * k, oh, ow})};
  if (flip(m)) n.inputs.push_back(m.fit(t, {2}));
  return true;
}

bool upsample(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1, 4), ""};
  Tensor scales = m.reals(DType::f32, {m.rank(n.inputs[0])}, 1, 2);
  n.inputs[1] = m.constant(scales);
  return s.inputs().size() == 2;
}

constexpr RecipeEntry kRecipes[] = {
    {"MatMul MatMulInteger", matmul},
    {"Gemm", gemm},
    {"Conv ConvTranspose ConvInteger", conv},
    {"MaxPool AveragePool LpPool", pool},
    {"GlobalAveragePool GlobalMaxPool GlobalLpPool", global_pool},
    {"BatchNormalization InstanceNormalization", channel_norm},
    {"GroupNormalization", group_norm},
    {"LayerNormalization RMSNormalization", layer_norm},
    {"LRN", lrn},
    {"MeanVarianceNormalization", mvn},
    {"Dropout", dropout},
    {"RandomUniform RandomNormal RandomUniformLike RandomNormalLike Bernoulli Multinomial", random},
    {"NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", loss},
    {"LSTM GRU RNN", recurrent},
    {"Attention", attention},
    {"QuantizeLinear DequantizeLinear", quantize},
    {"QLinearMatMul", qlinear_matmul},
    {"QLinearConv", qlinear_conv},
    {"GridSample", grid_sample},
    {"AffineGrid", affine_grid},
    {"RoiAlign", roi_align},
    {"NonMaxSuppression", nms},
    {"Col2Im", col2im},
    {"Det", det},
    {"RotaryEmbedding", rotary},
    {"DeformConv", deform_conv},
    {"Upsample", upsample},
};

}  // namespace

std::span<const RecipeEntry> network_recipes() { return kRecipes; }

}  // namespace tessera::testing
