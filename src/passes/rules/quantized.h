// Quantisation parameters of a match, for the rules about QuantizeLinear and DequantizeLinear. By convention the value
// x goes with a scale "xs", a zero point "xz" and a node "dx": DequantizeLinear*(x, #xs, #xz?); what is quantised in
// the end is "q: QuantizeLinear(..., #ys, #yz?)".
#pragma once
#include <string>

#include "passes/rewrite.h"

namespace tessera {

inline constexpr TypeSet kByteTypes = set_of(DType::i8, DType::u8);

// One scale and zero point for a whole tensor of bytes that stands for float32 numbers.
struct BytePoint {
  DType type;
  float scale;
  int64_t zero;
  bool operator==(const BytePoint&) const = default;
};

// Of DequantizeLinear and of the value it reads.
std::optional<BytePoint> dequantized(const Match& m, const std::string& x);
// Of the QuantizeLinear "q".
std::optional<BytePoint> quantized(const Match& m);
// The numbers of a constant; empty if it is none.
std::vector<double> numbers(const Match& m, std::string_view name);
// The axis of the DequantizeLinear of `x`; nothing if the tensor has none such, or the scales are in blocks.
std::optional<int> scale_axis(const Match& m, const std::string& x);
// True for finite positive float32 numbers of a scale: one, or one for each index of `axis` of x.
bool has_scales(const Match& m, const std::string& x, int axis);

// The zero point that a name stands for, or a new constant.
ir::ValueId zero_or_new(const Match& m, Replacement& r, std::string_view name, DType type);
// A constant list of numbers.
template <class T>
ir::ValueId list(Replacement& r, const std::vector<T>& values, std::string_view hint) {
  Result<Tensor> t = Tensor::of<T>(Shape{static_cast<int64_t>(values.size())}, values);
  return t.ok() ? r.constant(std::move(*t), hint) : ir::kNone;
}
template <class T>
ir::ValueId scalar(Replacement& r, T value, std::string_view hint) {
  Result<Tensor> t = Tensor::scalar<T>(value);
  return t.ok() ? r.constant(std::move(*t), hint) : ir::kNone;
}
// A graph output keeps its name only if its new producer can take it: what the caller gave or a constant cannot.
bool can_stand_for_root(const Match& m, ir::ValueId x);

}  // namespace tessera
