// BatchNormalization(Conv(x, w, b)) with constant parameters   becomes   Conv(x, w', b').
#include <cmath>

#include "passes/rewrite.h"

namespace tessera {
namespace {

bool is_floats(const Tensor& t, int64_t count) {
  return t.dtype() == DType::f32 && t.shape().rank() == 1 && t.count() == count;
}

bool fold(const Match& m, Replacement& r) {
  const ir::Node& conv = m.node("conv");
  const Tensor w = m.tensor("w"), b = m.tensor("b"), scale = m.tensor("scale"), bias = m.tensor("bias"),
               mean = m.tensor("mean"), var = m.tensor("var");
  if (m.integer("bn", "training_mode", 0) != 0 || w.dtype() != DType::f32 || w.shape().rank() < 3) return false;
  const int64_t channels = w.shape()[0];
  for (const Tensor* t : {&scale, &bias, &mean, &var})
    if (!is_floats(*t, channels)) return false;
  if (m.has("b") && !is_floats(b, channels)) return false;
  Result<Tensor> weights = Tensor::allocate(DType::f32, w.shape()),
                 offsets = Tensor::allocate(DType::f32, Shape{channels});
  if (!weights.ok() || !offsets.ok()) return false;
  const double epsilon = m.real("bn", "epsilon", 1e-5f);
  const int64_t each = w.count() / std::max<int64_t>(1, channels);
  for (int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<size_t>(c);
    const double factor = scale.values<float>()[at] / std::sqrt(var.values<float>()[at] + epsilon);
    const double was = m.has("b") ? b.values<float>()[at] : 0;
    for (int64_t i = c * each; i < (c + 1) * each; ++i)
      static_cast<float*>(weights->mutable_data())[i] =
          static_cast<float>(w.values<float>()[static_cast<size_t>(i)] * factor);
    static_cast<float*>(offsets->mutable_data())[c] =
        static_cast<float>((was - mean.values<float>()[at]) * factor + bias.values<float>()[at]);
  }
  r.result(r.node("Conv",
                  {m.value("x"), r.constant(std::move(*weights), conv.name + "/weight"),
                   r.constant(std::move(*offsets), conv.name + "/bias")},
                  conv.attributes));
  return true;
}

constexpr const char* kPatterns[] = {"bn: BatchNormalization(conv: Conv(x, #w, #b?), #scale, #bias, #mean, #var)"};

}  // namespace

extern constexpr Rule kFoldBatchNormalization{"fold_batch_normalization", 1, 0, kPatterns, fold};

}  // namespace tessera
