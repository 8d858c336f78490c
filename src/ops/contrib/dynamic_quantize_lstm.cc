// DynamicQuantizeLSTM — an LSTM whose weights are quantized. They are brought back to floats, once, at load: the
// activations need no quantisation then.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(8) | in_arg(9) | in_arg(10) | in_arg(11), 12, 3};

// Input `w`, [directions, rows, columns], as the LSTM wants it: turned, in floats. A scale for each direction or each
// column of one.
ir::ValueId weights(Composer& c, int w, int scale, int zero) {
  const auto wide = [&](int i) { return c.op("CastLike", {c.in(i), c.in(scale)}); };
  const auto lined_up = [&](ir::ValueId x) { return c.op("Reshape", {x, list(c, {0, 1, -1})}); };
  const ir::ValueId centred = c.op("Sub", {wide(w), lined_up(wide(zero))});
  return c.op("Transpose", {c.op("Mul", {centred, lined_up(c.in(scale))})},
              {ir::Attribute::integers("perm", {0, 2, 1})});
}

Status compose(Composer& c) {
  std::vector<ir::ValueId> inputs{c.in(0), weights(c, 1, 8, 9), weights(c, 2, 10, 11)};
  for (int i = 3; i <= 7; ++i) inputs.push_back(c.in(i));
  const ir::ValueId y = c.op("LSTM", std::move(inputs),
                             keep_attributes(c, {"activation_alpha", "activation_beta", "activations", "clip",
                                                 "direction", "hidden_size", "input_forget"}),
                             static_cast<size_t>(std::max(1, c.outputs())));
  for (int o = 0; o < c.outputs(); ++o) c.out(o, y + static_cast<ir::ValueId>(o));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftDynamicQuantizeLSTM = composed<kArity, compose>("DynamicQuantizeLSTM");
extern constexpr OpInference kMicrosoftDynamicQuantizeLSTMInference{};

}  // namespace tessera
