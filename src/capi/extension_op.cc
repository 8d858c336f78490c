#include "capi/extension_op.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/checked.h"
#include "capi/custom_op.h"
#include "capi/guard.h"
#include "capi/kernel_context.h"

// A shape call over numbers or over symbols, behind one face.
struct TesseraShapeCall {
  struct Input {
    bool present = false;
    tessera::DType type = tessera::DType::undefined;
    std::vector<TesseraDim> dims;
  };
  virtual ~TesseraShapeCall() = default;
  virtual std::optional<std::vector<TesseraDim>> content(int index) = 0;
  virtual tessera::Status set(int index, std::span<const TesseraDim> dims) = 0;
  virtual std::optional<tessera::Dim> fresh() = 0;

  std::vector<Input> inputs;
  size_t outputs = 0;
  uint32_t content_inputs = 0;
  std::deque<std::vector<TesseraDim>> contents;  // given to the client
};

namespace tessera::capi {
namespace {

TesseraDim wrap(const Dim& d) { return {d.known() ? d.value() : -1, d.expr()}; }
Dim unwrap(const TesseraDim& d) { return d.symbol ? Dim(*static_cast<const DimExpr*>(d.symbol)) : Dim(d.number); }

template <class D>
class Shapes : public TesseraShapeCall {
 public:
  Shapes(ShapeCall<D>& call, uint32_t read) : call_(call) {
    content_inputs = read;
    outputs = static_cast<size_t>(call.outputs());
    for (int i = 0; i < call.inputs(); ++i) {
      Input& in = inputs.emplace_back();
      in.present = call.has(i);
      if (!in.present) continue;
      in.type = call.dtype(i);
      for (const D& d : call.dims(i)) in.dims.push_back(wrap(Dim(d)));
    }
  }
  std::optional<std::vector<TesseraDim>> content(int index) override {
    const auto known = call_.content(index);
    if (!known) return {};
    std::vector<TesseraDim> out;
    for (const D& d : *known) out.push_back(wrap(Dim(d)));
    return out;
  }
  Status set(int index, std::span<const TesseraDim> dims) override {
    std::vector<D> out;
    for (const TesseraDim& d : dims) {
      if constexpr (std::is_same_v<D, int64_t>) {
        if (d.symbol) return invalid("output {} has a symbol for a size, wanted a number", index);
        out.push_back(d.number);
      } else {
        out.push_back(unwrap(d));
      }
    }
    return call_.set(index, out);
  }
  std::optional<Dim> fresh() override {
    if constexpr (std::is_same_v<D, int64_t>)
      return {};
    else
      return call_.fresh();
  }

 private:
  ShapeCall<D>& call_;
};

// Depends on every attribute: a packed weight may.
int64_t hash_of(const std::vector<OrtOpAttr>& attributes) {
  uint64_t h = 0xcbf29ce484222325u;
  const auto mix = [&](const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) h = (h ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
    h = (h ^ size) * 0x100000001b3u;
  };
  for (const OrtOpAttr& a : attributes) {
    const ir::Attribute& at = a.attribute;
    mix(at.name.data(), at.name.size());
    if (const auto* i = std::get_if<int64_t>(&at.value)) mix(i, sizeof *i);
    if (const auto* f = std::get_if<float>(&at.value)) mix(f, sizeof *f);
    if (const auto* s = std::get_if<std::string>(&at.value)) mix(s->data(), s->size());
    if (const auto* v = std::get_if<std::vector<int64_t>>(&at.value)) mix(v->data(), v->size() * sizeof(int64_t));
    if (const auto* v = std::get_if<std::vector<float>>(&at.value)) mix(v->data(), v->size() * sizeof(float));
    if (const auto* v = std::get_if<std::vector<std::string>>(&at.value))
      for (const std::string& s : *v) mix(s.data(), s.size());
    if (const auto* w = std::get_if<std::vector<Weight>>(&at.value))
      for (const Weight& weight : *w)
        if (const Result<Tensor> t = weight.tensor(); t.ok() && t->dtype() != DType::string)
          mix(t->data(), static_cast<size_t>(t->bytes()));
  }
  return static_cast<int64_t>(h);
}

class ExtensionNode : public CustomNode {
 public:
  ExtensionNode(std::shared_ptr<const CustomSession> session, std::shared_ptr<const ExtensionOp> from, int64_t variant)
      : session_(std::move(session)), from_(std::move(from)), variant_(variant) {}
  ~ExtensionNode() override {
    if (opened_ && op().Close) op().Close(node_);
  }

  Status open(const OrtKernelInfo& info) {
    TRY(call_client([&] { return op().Open(op().state, &info, &node_); }));
    opened_ = true;
    return {};
  }

  void types(TypeCall& c) const override {
    std::vector<DType> in;
    for (const TypeDesc& t : c.in) in.push_back(t.kind == Kind::tensor ? t.dtype : DType::undefined);
    in.resize(c.node.inputs.size());
    const Result<std::vector<DType>> found = types_for(in, c.out.size());
    for (size_t o = 0; o < c.out.size(); ++o)
      c.out[o] = {Kind::tensor, found.ok() ? (*found)[o] : DType::undefined, Kind::tensor};
  }

  Status infer(const ir::Node&, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) const override {
    bool ranked = op().Shape != nullptr;
    for (const Fact* f : in) ranked = ranked && (!f || (f->kind == Kind::tensor && f->shape));
    if (!ranked) return {};
    ShapeCall<Dim> call(dims, in, out);
    return shapes(call);
  }

  // What the types function refuses is said here; where a type is not known yet, when the values are read.
  Status start(const Scope& scope, const ir::Node& node) override {
    std::vector<DType> in;
    for (const ir::ValueId id : node.inputs) {
      const Fact* f = id == ir::kNone ? nullptr : &scope.graph.value(id).fact;
      if (f && f->kind == Kind::tensor && f->dtype == DType::undefined) return {};
      if (f && f->kind == Kind::unknown) return {};
      if (f && f->kind != Kind::tensor) return invalid_graph("its inputs are {}, wanted tensors", f->str());
      in.push_back(f ? f->dtype : DType::undefined);
    }
    return types_for(in, node.outputs.size()).take_status();
  }

  Status shape(ShapeCall<int64_t>& c) const override { return shapes(c); }

  Status compute(Call& call) const override {
    OrtKernelContext context(call, *session_, op().Shape != nullptr, {});
    TRY(context.open());
    TRY(call_client([&] { return op().Compute(node_, &context); }));
    return context.close();
  }

  int64_t packed_bytes(const Shape& weight) const override {
    return op().PackedBytes(node_, weight.dims().data(), weight.dims().size());
  }
  void pack(const Shape& shape, const void* weight, void* out) const override {
    op().Pack(node_, shape.dims().data(), shape.dims().size(), weight, out);
  }
  int64_t variant() const override { return variant_; }

 private:
  const TesseraOperator& op() const { return from_->op; }

  Result<std::vector<DType>> types_for(std::span<const DType> in, size_t outputs) const {
    std::vector<ONNXTensorElementDataType> given, found(outputs, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
    for (const DType t : in) given.push_back(onnx_of_dtype(t));
    TRY(call_client([&] { return op().Types(node_, given.data(), given.size(), found.data(), outputs); }));
    std::vector<DType> out;
    for (const ONNXTensorElementDataType t : found) out.push_back(dtype_of_onnx(t));
    return out;
  }

  template <class D>
  Status shapes(ShapeCall<D>& call) const {
    Shapes<D> shapes(call, op().content_inputs);
    return call_client([&] { return op().Shape(node_, &shapes); });
  }

  std::shared_ptr<const CustomSession> session_;
  std::shared_ptr<const ExtensionOp> from_;
  int64_t variant_;
  void* node_ = nullptr;
  bool opened_ = false;
};

class ExtensionCustomOp : public CustomOp {
 public:
  ExtensionCustomOp(std::shared_ptr<const CustomSession> session, std::shared_ptr<const ExtensionOp> from)
      : CustomOp(traits_of(*from)), session_(std::move(session)), from_(std::move(from)) {}

  Result<std::shared_ptr<CustomNode>> open(const ir::Node& node) const override {
    const auto info = kernel_info_of(session_, nullptr, node, traits().since);
    auto made = std::make_shared<ExtensionNode>(session_, from_, hash_of(info->attributes));
    TRY(made->open(*info));
    return std::shared_ptr<CustomNode>(std::move(made));
  }

 private:
  static Traits traits_of(const ExtensionOp& from) {
    Traits t;
    t.domain = from.domain;
    t.name = from.name;
    t.since = from.op.since_version;
    if (from.op.until_version) t.until = from.op.until_version;
    t.shaped = from.op.Shape != nullptr;
    t.random = from.op.random;
    t.shape_inputs = from.op.content_inputs;
    t.packed_input = from.op.packed_input;
    t.packed_type = dtype_of_onnx(from.op.packed_type);
    t.layout = format("{}:{}:{}", from.domain, from.name, from.layout);
    return t;
  }
  std::shared_ptr<const CustomSession> session_;
  std::shared_ptr<const ExtensionOp> from_;
};

}  // namespace

std::shared_ptr<const CustomOp> make_extension_op(std::shared_ptr<const CustomSession> session,
                                                  std::shared_ptr<const ExtensionOp> from) {
  return std::make_shared<ExtensionCustomOp>(std::move(session), std::move(from));
}

Status add_operator(OrtSessionOptions* options, const TesseraOperator* op) {
  TRY(not_null({{"options", options}, {"op", op}}));
  if (op->size < sizeof(TesseraOperator))
    return invalid("TesseraOperator::size is {}, wanted {}", op->size, sizeof(TesseraOperator));
  TRY(not_null({{"TesseraOperator::domain", op->domain},
                {"TesseraOperator::name", op->name},
                {"TesseraOperator::Open", reinterpret_cast<const void*>(op->Open)},
                {"TesseraOperator::Types", reinterpret_cast<const void*>(op->Types)},
                {"TesseraOperator::Compute", reinterpret_cast<const void*>(op->Compute)}}));
  if (!*op->name) return invalid("an operator has no name");
  if (op->since_version < 1 || (op->until_version && op->until_version < op->since_version))
    return invalid("operator {} is there from version {} to {}", quote(op->name), op->since_version, op->until_version);
  if (op->packed_input >= 0)
    TRY(not_null({{"TesseraOperator::packed_layout", op->packed_layout},
                  {"TesseraOperator::PackedBytes", reinterpret_cast<const void*>(op->PackedBytes)},
                  {"TesseraOperator::Pack", reinterpret_cast<const void*>(op->Pack)}}));
  auto copy = std::make_shared<ExtensionOp>();
  copy->op = *op;
  copy->domain = std::strcmp(op->domain, "ai.onnx") == 0 ? "" : op->domain;
  copy->name = op->name;
  if (op->packed_input >= 0) copy->layout = op->packed_layout;
  options->extension_ops.push_back(std::move(copy));
  return {};
}

Status shape_counts(const TesseraShapeCall* call, size_t* inputs, size_t* outputs) {
  TRY(not_null({{"call", call}, {"inputs", inputs}, {"outputs", outputs}}));
  *inputs = call->inputs.size();
  *outputs = call->outputs;
  return {};
}

Status shape_input(const TesseraShapeCall* call, size_t index, ONNXTensorElementDataType* type, const TesseraDim** dims,
                   size_t* rank) {
  TRY(not_null({{"call", call}, {"type", type}, {"dims", dims}, {"rank", rank}}));
  static constexpr TesseraDim kNone{};
  *type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  *dims = nullptr;
  *rank = 0;
  if (index >= call->inputs.size() || !call->inputs[index].present) return {};
  const TesseraShapeCall::Input& in = call->inputs[index];
  *type = onnx_of_dtype(in.type);
  *dims = in.dims.empty() ? &kNone : in.dims.data();
  *rank = in.dims.size();
  return {};
}

Status shape_content(TesseraShapeCall* call, size_t index, const TesseraDim** elements, size_t* count) {
  TRY(not_null({{"call", call}, {"elements", elements}, {"count", count}}));
  *elements = nullptr;
  *count = 0;
  if (index >= 32 || !(call->content_inputs >> index & 1))
    return invalid("input {} is not named in TesseraOperator::content_inputs", index);
  if (index >= call->inputs.size() || !call->inputs[index].present) return {};
  std::optional<std::vector<TesseraDim>> known = call->content(static_cast<int>(index));
  if (!known) return {};
  *count = known->size();
  if (known->empty()) known->push_back({});  // an address all the same
  *elements = call->contents.emplace_back(std::move(*known)).data();
  return {};
}

Status shape_set_output(TesseraShapeCall* call, size_t index, const TesseraDim* dims, size_t rank) {
  TRY(not_null({{"call", call}}));
  if (rank) TRY(not_null({{"dims", dims}}));
  if (index >= call->outputs) return {};  // an optional output that the node leaves out
  if (rank >= kMaxRank)
    return invalid("output {} would have rank {}, fewer than {} are supported", index, rank, kMaxRank);
  return call->set(static_cast<int>(index), {dims, rank});
}

Status shape_unknown(TesseraShapeCall* call, TesseraDim* out) {
  TRY(not_null({{"call", call}, {"out", out}}));
  const std::optional<Dim> fresh = call->fresh();
  if (!fresh) return invalid("the sizes of outputs must be known when a model runs");
  *out = wrap(*fresh);
  return {};
}

Status dim_combine(TesseraDimOp op, const TesseraDim* a, const TesseraDim* b, TesseraDim* out) {
  TRY(not_null({{"a", a}, {"b", b}, {"out", out}}));
  const Dim x = unwrap(*a), y = unwrap(*b);
  int64_t number = 0;
  bool ok = true;
  const bool numbers = x.known() && y.known();
  switch (op) {
    case TESSERA_DIM_ADD:
      if (numbers) ok = checked_add(x.value(), y.value(), &number);
      *out = wrap(numbers ? Dim(number) : x + y);
      break;
    case TESSERA_DIM_SUB:
      if (numbers) ok = !__builtin_sub_overflow(x.value(), y.value(), &number);
      *out = wrap(numbers ? Dim(number) : x - y);
      break;
    case TESSERA_DIM_MUL:
      if (numbers) ok = checked_mul(x.value(), y.value(), &number);
      *out = wrap(numbers ? Dim(number) : x * y);
      break;
    case TESSERA_DIM_FLOOR_DIV:
      if (y.known() && y.value() <= 0) return invalid("a size divided by {}", y.value());
      *out = wrap(floor_div(x, y));
      break;
    case TESSERA_DIM_MAX: *out = wrap(dim_max(x, y)); break;
    case TESSERA_DIM_MIN: *out = wrap(dim_min(x, y)); break;
    default: return invalid("{} is no operation on sizes", static_cast<int>(op));
  }
  return ok ? Status() : invalid("a size that 63 bits cannot hold");
}

Status get_packed(const OrtKernelContext* context, size_t index, const void** packed) {
  TRY(not_null({{"context", context}, {"packed", packed}}));
  *packed =
      index < static_cast<size_t>(context->call().inputs()) ? context->call().packed(static_cast<int>(index)) : nullptr;
  return {};
}

}  // namespace tessera::capi
