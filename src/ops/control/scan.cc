// Scan — runs a body over slices of its scan inputs, carrying states along and stacking what each step yields.
#include "ir/patch.h"
#include "ops/control/bodies.h"
#include "ops/control/stack.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  BodyRef body;
  int states = 0, scans = 0;
  // Version 8: everything has a leading batch dimension, and an optional input after the others says how many steps
  // each batch takes.
  bool batched = false;
  std::vector<int64_t> in_axes, in_reverse, out_axes, out_reverse;

  int yields() const { return body.outputs() - states; }
};

Status parse(Attrs& a, Params& p) {
  p.batched = a.version() == 8;
  const int inputs = static_cast<int>(a.node().inputs.size()) - (p.batched ? 1 : 0);
  a.get("num_scan_inputs", p.scans);
  if (p.scans < 1 || p.scans > inputs) return a.refuse("num_scan_inputs", format("1 to {}", inputs));
  p.states = inputs - p.scans;
  TRY(get_body(a, "body", p.body));
  TRY(check_body(p.body, "body", inputs, std::max(p.states, static_cast<int>(a.node().outputs.size()))));
  const std::string_view in_directions = p.batched ? "directions" : "scan_input_directions";
  a.get(in_directions, p.in_reverse);
  a.get("scan_output_directions", p.out_reverse);
  a.get("scan_input_axes", p.in_axes);
  a.get("scan_output_axes", p.out_axes);
  TRY(check_directions(a, in_directions, p.in_reverse, p.scans));
  TRY(check_directions(a, "scan_output_directions", p.out_reverse, p.yields()));
  const auto check_axes = [&](std::string_view name, std::vector<int64_t>& axes, int size) -> Status {
    if (!axes.empty() && static_cast<int>(axes.size()) != size) return a.refuse(name, format("{} axes", size));
    axes.resize(static_cast<size_t>(size), 0);
    return {};
  };
  TRY(check_axes("scan_input_axes", p.in_axes, p.scans));
  return check_axes("scan_output_axes", p.out_axes, p.yields());
}

// Version 8 has the number of steps in front; it goes last, so that inputs stand where the body has them.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  std::vector<ir::ValueId>& inputs = graph.node(id).inputs;
  if (since == 8 && !inputs.empty()) std::rotate(inputs.begin(), inputs.begin() + 1, inputs.end());
  return {};
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  for (size_t o = 0; o < c.out.size(); ++o) {
    c.out[o] = c.bodies[0][o];
    if (static_cast<int>(o) < p.states && c.out[o].dtype == DType::undefined) c.out[o] = c.in[o];
  }
}

Status infer(const ir::Node&, const void* params, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  if (p.batched) return {};
  const Fact* first = in[static_cast<size_t>(p.states)];
  Dim length = dims.fresh();
  if (first && first->shape)
    if (const auto axis = normalize_axis(p.in_axes[0], first->rank()))
      length = (*first->shape)[static_cast<size_t>(*axis)];
  for (size_t o = 0; o < out.size(); ++o) {
    const Fact& result = p.body.output(static_cast<int>(o));
    if (static_cast<int>(o) < p.states) {
      if (in[o] && in[o]->kind == result.kind && result.kind != Kind::unknown) out[o] = either(*in[o], result, dims);
    } else if (result.is_tensor() && result.shape) {
      std::vector<Dim> shape(*result.shape);
      const auto axis = normalize_axis(p.out_axes[o - static_cast<size_t>(p.states)], result.rank() + 1);
      if (!axis) continue;
      shape.insert(shape.begin() + *axis, length);
      out[o] = Fact::tensor(result.dtype, std::move(shape));
    }
  }
  return {};
}

// What is left of a fact when one axis is taken away.
void without_axis(Fact& f, int64_t axis) {
  if (!f.shape) return;
  if (const auto a = normalize_axis(axis, f.rank()))
    f.shape->erase(f.shape->begin() + *a);
  else
    f.shape.reset();
}

std::vector<BodyInput> body_inputs(const void* params, std::span<const Fact* const> in) {
  const Params& p = *static_cast<const Params*>(params);
  std::vector<BodyInput> out;
  for (int i = 0; i < p.states + p.scans; ++i) {
    Fact f = form_of(in[static_cast<size_t>(i)]);
    if (p.batched) without_axis(f, 0);
    if (i >= p.states) without_axis(f, p.in_axes[static_cast<size_t>(i - p.states)]);
    out.push_back({std::move(f), i < p.states ? i : -1});
  }
  return out;
}

// Slices of one tensor along one axis: read in place where they are contiguous.
class Slicer {
 public:
  // `leading`: dimensions before the axis that are fixed by the `base` of at().
  Slicer(const Call& call, int input, int axis, int leading)
      : dtype_(call.dtype(input)), data_(call.in(input)), length_(call.shape(input)[axis]) {
    const Shape& s = call.shape(input);
    outer_ = s.count(leading, axis);
    inner_ = s.count(axis + 1, s.rank());
    std::vector<int64_t> dims(s.dims().begin() + leading, s.dims().end());
    dims.erase(dims.begin() + (axis - leading));
    element_ = Shape(dims);
  }
  int64_t length() const { return length_; }

  // Slice `position`, counted from element `base` of the tensor. Valid while the tensor is.
  Result<Value> at(int64_t base, int64_t position) const {
    const int64_t first = base + position * inner_, bits = bits_of(dtype_);
    if (outer_ == 1 && first * bits % 8 == 0) {
      const auto size = static_cast<size_t>(bytes_for(dtype_, inner_).value_or(0));
      const auto* begin = static_cast<const std::byte*>(data_) + first * bits / 8;
      return Value(Tensor(dtype_, element_, borrow_bytes(begin, size)));
    }
    TRY_ASSIGN(t, Tensor::allocate(dtype_, element_));
    clear_sub_byte(dtype_, t.mutable_data(), t.count());
    for (int64_t o = 0; o < outer_; ++o)
      copy_elements(dtype_, data_, first + o * length_ * inner_, t.mutable_data(), o * inner_, inner_);
    return Value(std::move(t));
  }

 private:
  DType dtype_;
  const void* data_;
  int64_t length_, outer_, inner_;
  Shape element_;
};

// What all steps of a Scan share.
class Run {
 public:
  Run(const Params& p, Call& call)
      : p_(p),
        call_(call),
        carry_(static_cast<size_t>(p.states)),
        in_(static_cast<size_t>(p.body.inputs())),
        out_(static_cast<size_t>(p.body.outputs())) {}

  Status start() {
    const int leading = p_.batched ? 1 : 0;
    for (int k = 0; k < p_.scans; ++k) {
      const int i = p_.states + k;
      if (!call_.is_tensor(i)) return call_.refuse(i, "a tensor");
      const auto axis = normalize_axis(p_.in_axes[static_cast<size_t>(k)], call_.shape(i).rank() - leading);
      if (!axis) return call_.refuse(i, "a rank with axis {}", p_.in_axes[static_cast<size_t>(k)] + leading);
      slicers_.emplace_back(call_, i, *axis + leading, leading);
      if (slicers_[static_cast<size_t>(k)].length() != length())
        return call_.refuse(i, "{} slices like the first scan input", length());
    }
    return {};
  }
  int64_t length() const { return slicers_[0].length(); }
  Carry& carry() { return carry_; }
  std::vector<Stack>& stacks() { return stacks_; }

  // `steps` steps over batch `batch` (0 where there are none), whose yields start at `first` in their stacks.
  Status steps(int64_t batch, int64_t steps, int64_t first) {
    for (int64_t t = 0; t < steps; ++t) {
      if (call_.cancelled()) return call_.stopped();
      TRY(step(batch, t, steps, first));
    }
    return {};
  }

 private:
  Status step(int64_t batch, int64_t t, int64_t steps, int64_t first) {
    const auto states = static_cast<size_t>(p_.states);
    const std::span<Value> yields = std::span(out_).subspan(states);
    carry_.lend(in_, out_);
    for (size_t k = 0; k < slicers_.size(); ++k) {
      const int64_t position = p_.in_reverse[k] ? steps - 1 - t : t;
      const int64_t base = batch ? batch * call_.shape(p_.states + static_cast<int>(k)).count(1, rank(k)) : 0;
      TRY_ASSIGN(slice, slicers_[k].at(base, position));
      in_[states + k] = std::move(slice);
    }
    const auto place = [&](size_t k) { return first + (p_.out_reverse[k] ? steps - 1 - t : t); };
    for (size_t k = 0; k < yields.size(); ++k) yields[k] = stacks_[k].place(place(k));
    TRY(call_.body(p_.body.index).run(in_, out_));
    carry_.collect(out_);
    for (size_t k = 0; k < yields.size(); ++k) TRY(stacks_[k].put(place(k), yields[k]));
    return {};
  }
  int rank(size_t k) const { return call_.shape(p_.states + static_cast<int>(k)).rank(); }

  const Params& p_;
  Call& call_;
  Carry carry_;
  std::vector<Value> in_, out_;
  std::vector<Slicer> slicers_;
  std::vector<Stack> stacks_;
};

Status compute_plain_scan(const Params& p, Call& call) {
  Run run(p, call);
  TRY(run.start());
  for (int i = 0; i < p.states; ++i) {
    TRY_ASSIGN(v, call.take(i));
    run.carry().values[static_cast<size_t>(i)] = std::move(v);
  }
  for (int k = 0; k < p.yields(); ++k)
    run.stacks().emplace_back(p.out_axes[static_cast<size_t>(k)], run.length(), Stack::Room::exact);
  TRY(run.steps(0, run.length(), 0));
  for (int o = 0; o < call.outputs(); ++o) {
    if (o < p.states) {
      call.set(o, std::move(run.carry().values[static_cast<size_t>(o)]));
    } else if (call.wants(o)) {
      Stack& stack = run.stacks()[static_cast<size_t>(o - p.states)];
      TRY_ASSIGN(all, stack.finish(run.length(), call.out_dtype(o), p.body.output(o)));
      call.set(o, std::move(all));
    }
  }
  return {};
}

// The number of steps of every batch.
Result<std::vector<int64_t>> batch_lengths(const Params& p, Call& call, int64_t batches, int64_t length) {
  std::vector<int64_t> out(static_cast<size_t>(batches), length);
  const int i = p.states + p.scans;
  if (!call.has(i)) return out;
  if (!call.is_tensor(i) || call.dtype(i) != DType::i64 || call.count(i) != batches)
    return call.refuse(i, "{} int64 numbers of steps", batches);
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t n = call.in<int64_t>(i)[b];
    if (n < 0 || n > length) return call.refuse(i, "numbers of steps from 0 to {} (batch {} has {})", length, b, n);
    out[static_cast<size_t>(b)] = n;
  }
  return out;
}

Status compute_batched(const Params& p, Call& call) {
  Run run(p, call);
  for (int i = 0; i < p.states + p.scans; ++i)
    if (!call.is_tensor(i) || call.shape(i).rank() < 1 || call.shape(i)[0] != call.shape(p.states)[0])
      return call.refuse(i, "a tensor with the batches of the first scan input");
  TRY(run.start());
  const int64_t batches = call.shape(p.states)[0], length = run.length();
  int64_t all_steps;
  if (!checked_mul(batches, length, &all_steps)) return call.refuse(p.states, "fewer steps");
  TRY_ASSIGN(lengths, batch_lengths(p, call, batches, length));
  std::vector<Stack> finals(static_cast<size_t>(p.states), Stack(0, batches, Stack::Room::gaps));
  for (int k = 0; k < p.yields(); ++k) run.stacks().emplace_back(0, all_steps, Stack::Room::gaps);
  for (int64_t b = 0; b < batches; ++b) {
    for (int i = 0; i < p.states; ++i) {
      TRY_ASSIGN(v, Slicer(call, i, 0, 0).at(0, b));
      run.carry().values[static_cast<size_t>(i)] = std::move(v);
    }
    TRY(run.steps(b, lengths[static_cast<size_t>(b)], b * length));
    for (size_t i = 0; i < finals.size(); ++i) TRY(finals[i].put(b, run.carry().values[i]));
  }
  for (int o = 0; o < call.outputs(); ++o) {
    if (!call.wants(o)) continue;
    const bool state = o < p.states;
    Stack& stack = state ? finals[static_cast<size_t>(o)] : run.stacks()[static_cast<size_t>(o - p.states)];
    TRY_ASSIGN(all, stack.finish(state ? batches : all_steps, call.out_dtype(o), p.body.output(o)));
    std::vector<int64_t> dims(all.shape().dims().begin(), all.shape().dims().end());
    if (!state) {
      dims[0] = length;
      dims.insert(dims.begin(), batches);
    }
    TRY_ASSIGN(shape, Shape::checked(dims));
    call.set(o, all.reshaped(std::move(shape)));
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  return p.batched ? compute_batched(p, call) : compute_plain_scan(p, call);
}

constexpr Kernel kKernels[] = {{{}, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {8, 9, 11, 16, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kScan{.domain = "",
                          .name = "Scan",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .types = types,
                          .kernels = kKernels,
                          .upgrade = upgrade};
extern constexpr OpInference kScanInference{.infer = infer, .body_inputs = body_inputs};

}  // namespace tessera
