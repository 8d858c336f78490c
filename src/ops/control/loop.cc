// Loop — runs a body until its trip count or its condition ends it, carrying values from one iteration to the next and
// stacking what each iteration yields.
#include "ir/patch.h"
#include "ops/control/bodies.h"
#include "ops/control/stack.h"

namespace tessera {
namespace {

struct Params {
  BodyRef body;
  int carried = 0;
};

Status parse(Attrs& a, Params& p) {
  p.carried = static_cast<int>(a.node().inputs.size()) - 2;
  TRY(get_body(a, "body", p.body));
  return check_body(p.body, "body", 2 + p.carried, 1 + std::max(p.carried, static_cast<int>(a.node().outputs.size())));
}

// An absent trip count is the largest one, an absent condition is true: both inputs are always there.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int) {
  const std::string name = graph.node(id).name;
  if (graph.node(id).inputs.size() < 2) graph.node(id).inputs.resize(2, ir::kNone);
  if (graph.node(id).inputs[0] == ir::kNone) {
    TRY_ASSIGN(most, Tensor::scalar<int64_t>(INT64_MAX));
    const ir::ValueId value = graph.add_constant(std::move(most), name + "/M");
    graph.node(id).inputs[0] = value;
  }
  if (graph.node(id).inputs[1] == ir::kNone) {
    TRY_ASSIGN(always, Tensor::scalar<bool>(true));
    const ir::ValueId value = graph.add_constant(std::move(always), name + "/cond");
    graph.node(id).inputs[1] = value;
  }
  return {};
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  for (size_t o = 0; o < c.out.size(); ++o) {
    c.out[o] = c.bodies[0][1 + o];
    if (static_cast<int>(o) < p.carried && c.out[o].dtype == DType::undefined) c.out[o] = c.in[2 + o];
  }
}

Status infer(const ir::Node&, const void* params, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  for (size_t o = 0; o < out.size(); ++o) {
    const Fact& result = p.body.output(static_cast<int>(1 + o));
    if (static_cast<int>(o) < p.carried) {
      const Fact* initial = in[2 + o];
      if (initial && initial->kind == result.kind && result.kind != Kind::unknown)
        out[o] = either(*initial, result, dims);
    } else if (result.is_tensor() && result.shape) {
      std::vector<Dim> shape(*result.shape);
      shape.insert(shape.begin(), dims.fresh());
      out[o] = Fact::tensor(result.dtype, std::move(shape));
    }
  }
  return {};
}

// The condition may have another rank from the second iteration on.
std::vector<BodyInput> body_inputs(const void* params, std::span<const Fact* const> in) {
  const Params& p = *static_cast<const Params*>(params);
  const bool list = p.body.input(0).rank() == 1;
  std::vector<BodyInput> out;
  out.push_back({Fact::tensor(DType::i64, std::vector<Dim>(list ? 1 : 0, Dim(1)))});
  out.push_back({Fact::tensor(DType::boolean)});
  for (int i = 0; i < p.carried; ++i) out.push_back({form_of(in[static_cast<size_t>(2 + i)]), 1 + i});
  return out;
}

// A one-element tensor of the rank that the body asks for.
template <class T>
Result<Value> single(const Fact& wanted, T value) {
  TRY_ASSIGN(t, Tensor::of<T>(wanted.rank() == 1 ? Shape{1} : Shape{}, std::span<const T>(&value, 1)));
  return Value(std::move(t));
}

// One run of a Loop: the values between iterations.
class Iteration {
 public:
  Iteration(const Params& p, Call& call, int64_t most)
      : p_(p),
        call_(call),
        in_(static_cast<size_t>(p.body.inputs())),
        out_(static_cast<size_t>(p.body.outputs())),
        carry_(static_cast<size_t>(p.carried)) {
    for (int o = 1 + p.carried; o < p.body.outputs(); ++o) stacks_.emplace_back(0, most, Stack::Room::growing);
  }

  Status start() {
    TRY_ASSIGN(condition, single<bool>(p_.body.input(1), true));
    out_[0] = std::move(condition);
    for (int i = 0; i < p_.carried; ++i) {
      TRY_ASSIGN(v, call_.take(2 + i));
      carry_.values[static_cast<size_t>(i)] = std::move(v);
    }
    return {};
  }

  // Runs the body once; false when its condition says that this was the last time.
  Result<bool> step(int64_t number) {
    TRY_ASSIGN(count, single<int64_t>(p_.body.input(0), number));
    in_[0] = std::move(count);
    in_[1] = std::move(out_[0]);
    const std::span<Value> out(out_);
    const std::span<Value> yields = out.subspan(1 + static_cast<size_t>(p_.carried));
    carry_.lend(std::span(in_).subspan(2), out.subspan(1));
    for (size_t k = 0; k < yields.size(); ++k) yields[k] = stacks_[k].place(number);
    TRY(call_.body(p_.body.index).run(in_, out));
    carry_.collect(out.subspan(1));
    for (size_t k = 0; k < yields.size(); ++k) TRY(stacks_[k].put(number, yields[k]));
    const Tensor* condition = out_[0].tensor();
    if (!condition || condition->dtype() != DType::boolean || condition->count() != 1)
      return invalid("the condition of the body is {}, wanted one truth value", out_[0].describe());
    return bool{*static_cast<const bool*>(condition->data())};
  }

  Status finish(int64_t iterations) {
    for (int o = 0; o < call_.outputs(); ++o) {
      if (!call_.wants(o)) continue;
      if (o < p_.carried) {
        call_.set(o, std::move(carry_.values[static_cast<size_t>(o)]));
        continue;
      }
      const Fact& element = p_.body.output(1 + o);
      TRY_ASSIGN(all, stacks_[static_cast<size_t>(o - p_.carried)].finish(iterations, call_.out_dtype(o), element));
      call_.set(o, std::move(all));
    }
    return {};
  }

 private:
  const Params& p_;
  Call& call_;
  std::vector<Value> in_, out_;
  Carry carry_;
  std::vector<Stack> stacks_;
};

Status compute(const Params& p, Call& call) {
  if (call.count(0) != 1) return call.refuse(0, "one trip count");
  if (call.count(1) != 1) return call.refuse(1, "one truth value");
  const int64_t most = *call.in<int64_t>(0);
  bool again = *call.in<bool>(1);
  Iteration iteration(p, call, most);
  TRY(iteration.start());
  int64_t i = 0;
  for (; i < most && again; ++i) {
    if (call.cancelled()) return call.stopped();
    TRY_ASSIGN(next, iteration.step(i));
    again = next;
  }
  return iteration.finish(i);
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::i64)}, {in_arg(1), set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 11, 13, 16, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kLoop{.domain = "",
                          .name = "Loop",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .types = types,
                          .kernels = kKernels,
                          .upgrade = upgrade};
extern constexpr OpInference kLoopInference{.infer = infer, .body_inputs = body_inputs};

}  // namespace tessera
