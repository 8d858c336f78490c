#include "capi/custom_op.h"

#include "capi/guard.h"
#include "capi/kernel_context.h"
#include "capi/shape_infer.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

// The versions of the ABI from which on an OrtCustomOp has certain members.
constexpr uint32_t kHasOptional = 8, kHasVariadic = 14, kHasStatus = 16, kHasInference = 17;

// An OrtCustomOp of any version: what a client's struct does not have yet has its default here.
class Callbacks {
 public:
  explicit Callbacks(const OrtCustomOp* op) : op_(op) {}

  const OrtCustomOp* op() const { return op_; }
  std::string name() const { return op_->GetName(op_); }
  size_t count(bool input) const { return input ? op_->GetInputTypeCount(op_) : op_->GetOutputTypeCount(op_); }

  // The type of an argument; undefined: any. Arguments past the declared ones belong to the last, if that is variadic.
  DType type(bool input, size_t index) const {
    const size_t n = count(input);
    if (n == 0) return DType::undefined;
    index = std::min(index, n - 1);
    return dtype_of_onnx(input ? op_->GetInputType(op_, index) : op_->GetOutputType(op_, index));
  }
  OrtCustomOpInputOutputCharacteristic kind(bool input, size_t index) const {
    const auto get = op_->version < kHasOptional ? nullptr
                     : input                     ? op_->GetInputCharacteristic
                                                 : op_->GetOutputCharacteristic;
    return get ? get(op_, index) : INPUT_OUTPUT_REQUIRED;
  }
  size_t least_variadic(bool input) const {
    const auto get = op_->version < kHasVariadic ? nullptr
                     : input                     ? op_->GetVariadicInputMinArity
                                                 : op_->GetVariadicOutputMinArity;
    return get ? static_cast<size_t>(std::max(0, get(op_))) : 1;
  }
  bool same_variadic() const {
    const auto get = op_->version < kHasVariadic ? nullptr : op_->GetVariadicInputHomogeneity;
    return get ? get(op_) != 0 : true;
  }
  int since() const {
    return op_->version >= kHasInference && op_->GetStartVersion ? std::max(1, op_->GetStartVersion(op_)) : 1;
  }
  bool infers() const { return op_->version >= kHasInference && op_->InferOutputShapeFn; }
  Status infer(OrtShapeInferContext& context) const {
    return call_client([&] { return op_->InferOutputShapeFn(op_, &context); });
  }

  Status create(const OrtKernelInfo& info, void** kernel) const {
    const OrtApi* api = OrtGetApiBase()->GetApi(op_->version);
    return call_client([&]() -> OrtStatus* {
      if (op_->version >= kHasStatus && op_->CreateKernelV2) return op_->CreateKernelV2(op_, api, &info, kernel);
      *kernel = op_->CreateKernel(op_, api, &info);
      return nullptr;
    });
  }
  Status compute(void* kernel, OrtKernelContext& context) const {
    return call_client([&]() -> OrtStatus* {
      if (op_->version >= kHasStatus && op_->KernelComputeV2) return op_->KernelComputeV2(kernel, &context);
      op_->KernelCompute(kernel, &context);
      return nullptr;
    });
  }
  void destroy(void* kernel) const { op_->KernelDestroy(kernel); }

 private:
  const OrtCustomOp* op_;
};

// The node's list of arguments against the declared one.
Status check_count(const Callbacks& c, bool input, std::span<const ir::ValueId> args) {
  const char* what = input ? "input" : "output";
  const size_t declared = c.count(input);
  const bool variadic = declared > 0 && c.kind(input, declared - 1) == INPUT_OUTPUT_VARIADIC;
  if (args.size() > declared && !variadic)
    return invalid_graph("it has {} {}s, wanted at most {}", args.size(), what, declared);
  for (size_t i = 0; i < declared - (variadic ? 1 : 0); ++i)
    if (c.kind(input, i) == INPUT_OUTPUT_REQUIRED && (i >= args.size() || args[i] == ir::kNone))
      return invalid_graph("its {} {} is absent, but not optional", what, i);
  const size_t rest = args.size() >= declared ? args.size() - declared + 1 : 0;
  if (variadic && rest < c.least_variadic(input))
    return invalid_graph("it has {} variadic {}s, wanted at least {}", rest, what, c.least_variadic(input));
  return {};
}

// Input types against the declared ones; absent and unknown types agree with all.
Status check_types(const Callbacks& c, std::span<const DType> in) {
  const size_t declared = c.count(true);
  DType shared = DType::undefined;
  for (size_t i = 0; i < in.size(); ++i) {
    DType want = c.type(true, i);
    const bool variadic = declared > 0 && i + 1 >= declared && c.kind(true, declared - 1) == INPUT_OUTPUT_VARIADIC;
    if (in[i] == DType::undefined) continue;
    if (want == DType::undefined && variadic && c.same_variadic()) {
      if (shared == DType::undefined) shared = in[i];
      want = shared;
    }
    if (want != DType::undefined && want != in[i])
      return invalid_graph("its input {} is {}, wanted {}", i, name_of(in[i]), name_of(want));
  }
  return {};
}

class CallbackNode : public CustomNode {
 public:
  CallbackNode(std::shared_ptr<const CustomSession> session, std::vector<Callbacks> fitting,
               std::unique_ptr<OrtKernelInfo> attributes)
      : session_(std::move(session)),
        fitting_(std::move(fitting)),
        attributes_(std::move(attributes)),
        chosen_(fitting_[0]) {}
  ~CallbackNode() override {
    if (started_) chosen_.destroy(kernel_);
  }

  void types(TypeCall& c) const override {
    std::vector<DType> in;
    for (const TypeDesc& t : c.in) in.push_back(t.kind == Kind::tensor ? t.dtype : DType::undefined);
    const Callbacks& callbacks = choose(in);
    for (size_t o = 0; o < c.out.size(); ++o) c.out[o] = {Kind::tensor, callbacks.type(false, o), Kind::tensor};
  }

  Status infer(const ir::Node&, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) const override {
    const Callbacks& callbacks = choose(types_of(in));
    if (!callbacks.infers()) return {};
    OrtShapeInferContext context(*attributes_, dims, in, out);
    return callbacks.infer(context);
  }

  Status start(const Scope& scope, const ir::Node& node) override {
    std::vector<const Fact*> in;
    for (const ir::ValueId id : node.inputs) in.push_back(id == ir::kNone ? nullptr : &scope.graph.value(id).fact);
    const std::vector<DType> types = types_of(in);
    chosen_ = choose(types);
    TRY(check_types(chosen_, types));
    for (size_t o = 0; o < node.outputs.size(); ++o) out_types_.push_back(chosen_.type(false, o));
    info_ = kernel_info_of(session_, &scope, node, chosen_.since());
    TRY(chosen_.create(*info_, &kernel_));
    started_ = true;
    return {};
  }

  Status shape(ShapeCall<int64_t>&) const override { return {}; }

  Status compute(Call& call) const override {
    OrtKernelContext context(call, *session_, false, out_types_);
    TRY(context.open());
    std::vector<DType> types;
    for (int i = 0; i < call.inputs(); ++i) types.push_back(call.is_tensor(i) ? call.dtype(i) : DType::undefined);
    TRY(check_types(chosen_, types));
    TRY(chosen_.compute(kernel_, context));
    return context.close();
  }

 private:
  static std::vector<DType> types_of(std::span<const Fact* const> in) {
    std::vector<DType> out;
    for (const Fact* f : in) out.push_back(f && f->kind == Kind::tensor ? f->dtype : DType::undefined);
    return out;
  }

  // The first that takes the types; the first of all if none does.
  const Callbacks& choose(std::span<const DType> in) const {
    for (const Callbacks& c : fitting_)
      if (check_types(c, in).ok()) return c;
    return fitting_[0];
  }

  std::shared_ptr<const CustomSession> session_;
  std::vector<Callbacks> fitting_;  // at least one
  std::unique_ptr<OrtKernelInfo> attributes_, info_;
  Callbacks chosen_;
  std::vector<DType> out_types_;
  void* kernel_ = nullptr;
  bool started_ = false;
};

class CallbackOp : public CustomOp {
 public:
  CallbackOp(std::shared_ptr<const CustomSession> session, Traits traits, std::vector<Callbacks> overloads)
      : CustomOp(std::move(traits)), session_(std::move(session)), overloads_(std::move(overloads)) {}

  Result<std::shared_ptr<CustomNode>> open(const ir::Node& node) const override {
    std::vector<Callbacks> fitting;
    Status first;
    for (const Callbacks& c : overloads_) {
      Status status = check_count(c, true, node.inputs);
      if (status.ok()) status = check_count(c, false, node.outputs);
      if (status.ok())
        fitting.push_back(c);
      else if (first.ok())
        first = std::move(status);
    }
    if (fitting.empty()) return first;
    return std::shared_ptr<CustomNode>(std::make_shared<CallbackNode>(
        session_, std::move(fitting), kernel_info_of(session_, nullptr, node, traits().since)));
  }

 private:
  std::shared_ptr<const CustomSession> session_;
  std::vector<Callbacks> overloads_;
};

}  // namespace

void add_callbacks(std::shared_ptr<const CustomSession> session, const std::string& domain,
                   std::span<const OrtCustomOp* const> ops, CustomOps& out) {
  // GetEndVersion is not looked at, as elsewhere: an operator serves until one with a later start takes over.
  struct Group {
    std::string name;
    int since;
    std::vector<Callbacks> overloads;
  };
  std::vector<Group> groups;
  for (const OrtCustomOp* op : ops) {
    const Callbacks c(op);
    const auto same = [&](const Group& g) { return g.name == c.name() && g.since == c.since(); };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) at = groups.insert(at, {c.name(), c.since(), {}});
    at->overloads.push_back(c);
  }
  for (Group& g : groups) {
    CustomOp::Traits traits;
    traits.domain = domain;
    traits.name = g.name;
    traits.since = g.since;
    traits.random = true;  // nothing says that the operator is a function of its inputs
    out.push_back(std::make_shared<CallbackOp>(session, std::move(traits), std::move(g.overloads)));
  }
}

}  // namespace tessera::capi
