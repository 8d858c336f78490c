// com.microsoft.nchwc — convolutions and pools on images whose channels lie in blocks: a tensor [n, c, h, w] of this
// domain is [n, c / block, h, w, block] in memory. Models get these operators when ONNX Runtime saves them for the CPU
// it runs on; the block is that CPU's. Each becomes the standard's operator between changes of the layout.
#include "base/cpu.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kOne{in_arg(0), 1}, kConv{in_arg(0) | in_arg(1), 4};

// What ONNX Runtime takes on the same CPU.
int64_t block_size() { return best_target() >= Target::avx3 || best_target() == Target::neon ? 16 : 8; }

ValueId dims(Composer& c, ValueId x, int64_t start, int64_t end) {
  return c.op("Shape", {x}, {Attribute::integer("start", start), Attribute::integer("end", end)});
}
ValueId joined(Composer& c, std::vector<ValueId> lists) {
  return c.op("Concat", std::move(lists), {Attribute::integer("axis", 0)});
}
ValueId transpose(Composer& c, ValueId x, std::vector<int64_t> perm) {
  return c.op("Transpose", {x}, {Attribute::integers("perm", std::move(perm))});
}

// Blocks of `block` (a list of one number) come apart.
ValueId unblock(Composer& c, ValueId x, ValueId block) {
  const ValueId split = c.op("Reshape", {x, joined(c, {dims(c, x, 0, 1), list(c, {-1}), dims(c, x, 2, 4), block})});
  return c.op("Reshape", {transpose(c, split, {0, 1, 4, 2, 3}), c.op("Shape", {x})});
}

ValueId block(Composer& c, ValueId x) {
  const ValueId split =
      c.op("Reshape", {x, joined(c, {dims(c, x, 0, 1), list(c, {-1, block_size()}), dims(c, x, 2, 4)})});
  return c.op("Reshape", {transpose(c, split, {0, 1, 3, 4, 2}), c.op("Shape", {x})});
}

// Channels are filled up with zeros to whole blocks.
Status compose_reorder_input(Composer& c) {
  bool last = false;
  c.attrs().get("channels_last", last);
  const ValueId x = last ? transpose(c, c.in(0), {0, 3, 1, 2}) : c.in(0);
  const ValueId missing = c.op("Mod", {c.op("Neg", {dims(c, x, 1, 2)}), list(c, {block_size()})});
  const ValueId pads = joined(c, {list(c, {0, 0, 0, 0, 0}), missing, list(c, {0, 0})});
  c.out(0, block(c, c.op("Pad", {x, pads})));
  return {};
}

Status compose_reorder_output(Composer& c) {
  bool last = false;
  int64_t channels = 0;
  c.attrs().get("channels_last", last);
  c.attrs().get("channels", channels);
  if (channels < 1) return c.attrs().refuse("channels", "at least 1");
  const ValueId whole = unblock(c, c.in(0), list(c, {block_size()}));
  const ValueId y = c.op("Slice", {whole, list(c, {0}), list(c, {channels}), list(c, {1})});
  c.out(0, last ? transpose(c, y, {0, 2, 3, 1}) : y);
  return {};
}

// Filters are [o / block, i / inner, h, w, inner, block], inner being a block if i is made of blocks, else 1. So is x,
// but for depthwise filters, whose i is 1.
Status compose_conv(Composer& c) {
  int64_t group = 1;
  c.attrs().get("group", group);
  const ValueId w = c.in(1), size = list(c, {block_size()}), one = list(c, {1});
  const ValueId rest = c.op("Mod", {dims(c, w, 1, 2), size});
  const ValueId inner = c.op("Where", {c.op("Equal", {rest, list(c, {0})}), size, one});
  const ValueId split =
      c.op("Reshape",
           {w, joined(c, {list(c, {-1}), c.op("Div", {dims(c, w, 1, 2), inner}), dims(c, w, 2, 4), inner, size})});
  const ValueId plain = c.op("Reshape", {transpose(c, split, {0, 5, 1, 4, 2, 3}), c.op("Shape", {w})});
  std::vector<ValueId> all{unblock(c, c.in(0), group > 1 ? size : inner), plain, c.in(2)};
  if (c.has(3)) all.push_back(unblock(c, c.in(3), size));
  const ValueId y = c.op("com.microsoft.FusedConv", std::move(all),
                         keep_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides",
                                             "activation", "activation_params"}));
  c.out(0, block(c, y));
  return {};
}

template <const char* const& Name>
Status compose_pool(Composer& c) {
  const ValueId x = unblock(c, c.in(0), list(c, {block_size()}));
  c.out(0, block(c, c.op(Name, {x},
                         keep_attributes(c, {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape",
                                             "pads", "strides"}))));
  return {};
}

Status compose_upsample(Composer& c) {
  std::vector<int64_t> scales;
  std::string mode = "nearest", coordinates = "asymmetric";
  c.attrs().get("scales", scales);
  c.attrs().get("mode", mode);
  c.attrs().get("coordinate_transformation_mode", coordinates);
  if (scales.size() != 4 || scales[0] != 1 || scales[1] != 1) return c.attrs().refuse("scales", "1, 1 and two factors");
  TRY_ASSIGN(factors, Tensor::allocate(DType::f32, Shape{4}));
  for (size_t i = 0; i < 4; ++i) {
    if (scales[i] < 1 || scales[i] > 1 << 20) return c.attrs().refuse("scales", "factors of at least 1");
    static_cast<float*>(factors.mutable_data())[i] = static_cast<float>(scales[i]);
  }
  if (mode == "nearest") coordinates = "asymmetric";
  const ValueId x = unblock(c, c.in(0), list(c, {block_size()}));
  const ValueId y = c.op("Resize", {x, ir::kNone, c.constant(std::move(factors))},
                         {Attribute::text("mode", mode), Attribute::text("nearest_mode", "floor"),
                          Attribute::text("coordinate_transformation_mode", coordinates)});
  c.out(0, block(c, y));
  return {};
}

template <const Arity& A, Status (*F)(Composer&)>
constexpr Op blocked(const char* name) {
  return {.domain = "com.microsoft.nchwc",
          .name = name,
          .versions = kVersions,
          .kernels = {},
          .compose = compose_checked<A, F>};
}

constexpr const char *kMax = "MaxPool", *kAverage = "AveragePool", *kGlobalMax = "GlobalMaxPool",
                     *kGlobalAverage = "GlobalAveragePool";

}  // namespace

extern constexpr Op kNchwcReorderInput = blocked<kOne, compose_reorder_input>("ReorderInput");
extern constexpr Op kNchwcReorderOutput = blocked<kOne, compose_reorder_output>("ReorderOutput");
extern constexpr Op kNchwcConv = blocked<kConv, compose_conv>("Conv");
extern constexpr Op kNchwcMaxPool = blocked<kOne, compose_pool<kMax>>(kMax);
extern constexpr Op kNchwcAveragePool = blocked<kOne, compose_pool<kAverage>>(kAverage);
extern constexpr Op kNchwcGlobalMaxPool = blocked<kOne, compose_pool<kGlobalMax>>(kGlobalMax);
extern constexpr Op kNchwcGlobalAveragePool = blocked<kOne, compose_pool<kGlobalAverage>>(kGlobalAverage);
extern constexpr Op kNchwcUpsample = blocked<kOne, compose_upsample>("Upsample");
extern constexpr OpInference kNchwcReorderInputInference{};
extern constexpr OpInference kNchwcReorderOutputInference{};
extern constexpr OpInference kNchwcConvInference{};
extern constexpr OpInference kNchwcMaxPoolInference{};
extern constexpr OpInference kNchwcAveragePoolInference{};
extern constexpr OpInference kNchwcGlobalMaxPoolInference{};
extern constexpr OpInference kNchwcGlobalAveragePoolInference{};
extern constexpr OpInference kNchwcUpsampleInference{};

}  // namespace tessera
