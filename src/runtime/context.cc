#include "runtime/context.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/convert.h"
#include "kernels/convert.h"
#include "runtime/offsets.h"

namespace tessera {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A body as its operator sees it: a context of its own that reads captured values from this one.
class Context::BodyRunner : public Body {
 public:
  BodyRunner(std::shared_ptr<const Plan> plan, Context& parent)
      : plan_(std::move(plan)), parent_(parent), context_(plan_, parent.slabs_) {}

  int inputs() const override { return static_cast<int>(plan_->inputs().size()); }
  int outputs() const override { return static_cast<int>(plan_->outputs().size()); }
  Status run(std::span<Value> inputs, std::span<Value> outputs) override {
    RunScope scope = parent_.scope_;
    scope.seed += ++runs_;
    Status status = context_.run_body(parent_, inputs, outputs, scope, lent_);
    parent_.body_grew_ = parent_.body_grew_ || slab_bytes() > static_cast<int64_t>(lent_.size());
    return status;
  }
  int64_t slab_bytes() const { return context_.slab_bytes(); }
  void lend(std::span<std::byte> memory) { lent_ = memory; }

 private:
  std::shared_ptr<const Plan> plan_;
  Context& parent_;
  Context context_;
  std::span<std::byte> lent_;
  uint64_t runs_ = 0;
};

Context::Context(std::shared_ptr<const Plan> plan, SlabPool& slabs) : plan_(std::move(plan)), slabs_(slabs) {
  const auto slot_plans = plan_->slots();
  slots_.resize(slot_plans.size());
  bytes_.resize(slot_plans.size());
  held_.resize(slot_plans.size());
  bound_content_.resize(slot_plans.size());
  for (size_t s = 1; s < slots_.size(); ++s) {
    slots_[s].dtype = slot_plans[s].type.dtype;
    slots_[s].present = slot_plans[s].place == Place::slab || slot_plans[s].place == Place::view ||
                        slot_plans[s].place == Place::output;
    slots_[s].known = slot_plans[s].content_bound;
  }
  for (const auto& [slot, tensor, weight] : plan_->constants()) {
    slots_[slot].shape = tensor.shape();
    slots_[slot].dtype = tensor.dtype();
    slots_[slot].data = const_cast<void*>(tensor.data());
    slots_[slot].present = slots_[slot].known = true;
    held_[slot] = tensor;
  }
  segments_.resize(static_cast<size_t>(plan_->segments()));
  for (const Step& step : plan_->steps()) {
    Segment& seg = segments_[static_cast<size_t>(step.segment)];
    if ((step.op->scratch && step.planned && !step.at_bind) || !step.bodies.empty())
      seg.with_scratch.push_back(static_cast<uint32_t>(seg.scratch.size()));
    seg.scratch.push_back({});
    for (const uint32_t o : plan_->args(step.result, step.out_count)) {
      if (o && step.planned && !step.at_bind) slots_[o].present = true;
      if (o && slot_plans[o].place == Place::slab) seg.owners.push_back(o);
    }
    for (const Conversion& c : step.widen) seg.owners.push_back(c.to);
    for (const Conversion& c : step.narrow) seg.owners.push_back(c.from);
    for (const auto& body : step.bodies) {
      bodies_.push_back(std::make_unique<BodyRunner>(body, *this));
      body_pointers_.push_back(bodies_.back().get());
    }
    packed_begin_.push_back(static_cast<uint32_t>(packed_.size()));
    packed_.resize(packed_.size() + step.packed.size(), nullptr);
  }
  for (Segment& s : segments_) {
    s.reserved.assign(s.owners.size(), 0);
    s.offset.assign(s.owners.size(), 0);
  }
  std::vector<bool> at_bind(slots_.size(), false);
  for (const Step& step : plan_->steps())
    if (step.at_bind)
      for (const uint32_t o : plan_->args(step.out, step.out_count)) at_bind[o] = true;
  for (uint32_t s = 1; s < slots_.size(); ++s) {
    const Place place = slot_plans[s].place;
    if (place == Place::input || place == Place::captured || (place == Place::held && !at_bind[s]))
      of_one_run_.push_back(s);
  }
}

Context::~Context() { release_slabs(); }

void Context::release_slabs() {
  for (Segment& s : segments_) {
    if (s.slab) slabs_.release(std::move(s.slab));
    s.base = nullptr;
  }
}

bool Context::bound_for(std::span<const Value> inputs) const {
  if (!segments_.empty() && !segments_[0].bound) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* t = inputs[i].tensor();
    if (t && !(slots_[plan_->inputs()[i]].shape == t->shape())) return false;
  }
  return true;
}

int64_t Context::bytes_of(uint32_t slot) const {
  return bytes_for(slots_[slot].dtype, slots_[slot].shape.count()).value_or(INT64_MAX / 4);
}

// What a slot was planned for must be what it holds: kernels were chosen for it.
Status Context::check_type(uint32_t slot, const Value& value) const {
  const TypeDesc& want = plan_->slots()[slot].type;
  const Tensor* t = value.tensor();
  bool fits = true;
  switch (want.kind) {
    case Kind::tensor: fits = t && (t->dtype() == want.dtype || want.dtype == DType::undefined); break;
    case Kind::sequence: fits = value.sequence(); break;
    case Kind::map: fits = value.map(); break;
    default: break;
  }
  if (fits) return {};
  const auto& values = plan_->graph().values();
  return invalid("{} is {}, wanted {}", slot <= values.size() ? quote(values[slot - 1].name) : "a value",
                 value.describe(),
                 want.kind == Kind::tensor     ? format("tensor({})", name_of(want.dtype))
                 : want.kind == Kind::sequence ? "a sequence"
                                               : "a map");
}

Status Context::set_input_slot(uint32_t slot, Value value) {
  if (!value.empty()) TRY(check_type(slot, value));
  Slot& s = slots_[slot];
  held_[slot] = std::move(value);
  const Tensor* t = held_[slot].tensor();
  if (!t) {
    s.changed = s.present;
    s.present = false;
    s.data = nullptr;
  } else {
    s.changed = !s.present || s.dtype != t->dtype() || !(s.shape == t->shape());
    if (s.changed) s.shape = t->shape();
    s.dtype = t->dtype();
    s.present = true;
    s.data = const_cast<void*>(t->data());
    if (plan_->slots()[slot].content_bound) {
      std::vector<std::byte>& was = bound_content_[slot];
      const auto size = static_cast<size_t>(t->bytes());
      if (s.changed || was.size() != size || (size && std::memcmp(was.data(), s.data, size) != 0)) {
        was.assign(static_cast<const std::byte*>(s.data), static_cast<const std::byte*>(s.data) + size);
        s.changed = true;
      }
    }
  }
  anything_changed_ = anything_changed_ || s.changed;
  return {};
}

Status Context::set_inputs(std::span<const Value> inputs, std::span<Value> taken) {
  for (size_t i = 0; i < plan_->inputs().size(); ++i) {
    const uint32_t slot = plan_->inputs()[i];
    Value v;
    if (i < taken.size())
      v = std::move(taken[i]);
    else if (i < inputs.size())
      v = inputs[i];
    if (v.empty())
      for (const auto& [constant, tensor, weight] : plan_->constants())
        if (constant == slot) v = tensor;
    TRY(set_input_slot(slot, std::move(v)));
  }
  return {};
}

Status Context::set_captures() {
  for (const auto& [own, outer] : plan_->captures()) {
    const Slot& from = outer_->slots_[outer];
    if (!from.present || !outer_->held_[outer].empty()) {
      TRY(set_input_slot(own, outer_->held_[outer]));
      continue;
    }
    // A planned tensor of the enclosing run: read in place.
    const auto size = static_cast<size_t>(bytes_for(from.dtype, from.shape.count()).value_or(0));
    Tensor view(from.dtype, from.shape,
                std::make_shared<Bytes>(Bytes::Origin::borrowed, from.data, size, nullptr, nullptr));
    TRY(set_input_slot(own, Value(std::move(view))));
  }
  return {};
}

// What its bodies took when they last ran; only one of them runs at a time.
int64_t Context::body_bytes_of(const Step& step) const {
  int64_t bytes = 0;
  for (size_t b = 0; b < step.bodies.size(); ++b) bytes = std::max(bytes, bodies_[step.first_body + b]->slab_bytes());
  return bytes;
}

int64_t Context::scratch_of(const Step& step) const {
  if (!step.op->scratch || !step.planned) return 0;
  const Shape* shapes[16] = {};
  const auto in = plan_->args(step.in, step.in_count);
  const size_t n = std::min<size_t>(in.size(), 16);
  ScratchCall call{{shapes, n}};
  for (size_t i = 0; i < n; ++i) {
    shapes[i] = &slots_[in[i]].shape;
    if (i < step.packed.size() && step.packed[i]) call.packed |= in_arg(static_cast<int>(i));
  }
  return round_up(step.op->scratch(step.node->params.get(), call), kAlignment);
}

Call::Frame Context::frame_of(const Step& step) {
  Call::Frame f{};
  f.slots = slots_.data();
  f.held = held_.data();
  f.node = step.node;
  f.scope = &scope_;
  f.in = plan_->args(step.in, step.in_count);
  f.out = plan_->args(step.out, step.out_count);
  f.last_use = step.last_use.get();
  f.prepared = step.prepared.get();
  if (!step.bodies.empty()) f.bodies = {body_pointers_.data() + step.first_body, step.bodies.size()};
  if (!step.packed.empty()) {
    const auto k = static_cast<size_t>(&step - plan_->steps().data());
    f.packed = {packed_.data() + packed_begin_[k], step.packed.size()};
  }
  return f;
}

Status Context::run_at_bind(const Step& step) {
  const auto out = plan_->args(step.out, step.out_count);
  for (const uint32_t o : out) {
    if (!o) continue;
    Slot& s = slots_[o];
    TRY_ASSIGN(t, Tensor::allocate(plan_->slots()[o].type.dtype, s.shape));
    s.data = t.mutable_data();
    s.dtype = t.dtype();
    s.present = true;
    held_[o] = std::move(t);
  }
  Call call(frame_of(step));
  TRY(step.compute(step.node->params.get(), call));
  for (const uint32_t o : out) {
    if (!o) continue;
    std::vector<std::byte>& was = bound_content_[o];
    const auto size = static_cast<size_t>(bytes_of(o));
    const auto* now = static_cast<const std::byte*>(slots_[o].data);
    if (was.size() != size || (size && std::memcmp(was.data(), now, size) != 0)) {
      was.assign(now, now + size);
      slots_[o].changed = true;
    }
    slots_[o].known = true;
  }
  return {};
}

Status Context::bind_step(const Step& step) {
  const auto in = plan_->args(step.in, step.in_count);
  const auto out = plan_->args(step.out, step.out_count);
  const bool bound = segments_[static_cast<size_t>(step.segment)].bound;
  bool stale = !bound;
  for (const Conversion& c : step.widen) {
    Slot &from = slots_[c.from], &to = slots_[c.to];
    to.changed = from.changed || !bound;
    if (to.changed) {
      to.shape = from.shape;
      bytes_[c.to] = bytes_of(c.to);
    }
  }
  for (const uint32_t i : in) stale = stale || slots_[i].changed;
  for (const uint32_t o : out) slots_[o].changed = !bound;
  slots_[0].changed = false;
  if (stale) {
    ShapeCall<int64_t> call(slots_.data(), in, out);
    TRY(step.op->shape(step.node->params.get(), call));
    for (const uint32_t o : out) {
      if (!slots_[o].changed || !o) continue;
      bytes_[o] = bytes_of(o);
      if (bytes_[o] > scope_.max_tensor_bytes)
        return error(Code::fail, "an output would be {}{}, more than {} bytes", name_of(slots_[o].dtype),
                     slots_[o].shape.dims(), scope_.max_tensor_bytes);
    }
    if (step.at_bind) TRY(run_at_bind(step));
  }
  for (const Conversion& c : step.narrow) {
    Slot &from = slots_[c.from], &to = slots_[c.to];
    to.changed = from.changed;
    if (from.changed) {
      to.shape = from.shape;
      bytes_[c.to] = bytes_of(c.to);
    }
  }
  return {};
}

// Every value still has room where it is, and takeovers still take over something of their own size.
bool Context::fits(const Segment& s, int segment) const {
  for (size_t i = 0; i < s.owners.size(); ++i)
    if (bytes_[s.owners[i]] > s.reserved[i]) return false;
  for (const Takeover& t : s.takeovers)
    if (bytes_[t.in] != bytes_[t.out]) return false;
  const auto begin = plan_->segment_begin()[static_cast<size_t>(segment)];
  for (const uint32_t k : s.with_scratch) {
    const Step& step = plan_->steps()[begin + k];
    if (scratch_of(step) > s.scratch[k].bytes || body_bytes_of(step) > s.scratch[k].body_bytes) return false;
  }
  return true;
}

Status Context::assign_memory(int segment) {
  Segment& s = segments_[static_cast<size_t>(segment)];
  const auto plans = plan_->slots();
  const auto begin = plan_->segment_begin()[static_cast<size_t>(segment)],
             end = plan_->segment_begin()[static_cast<size_t>(segment) + 1];
  const bool grows = s.bound;  // seen before with other sizes: leave room for the next step of a growing cache
  s.takeovers.clear();
  std::vector<int32_t> index(slots_.size(), -1);
  std::vector<Lifetime> lives;
  for (size_t i = 0; i < s.owners.size(); ++i) {
    const SlotPlan& p = plans[s.owners[i]];
    int64_t bytes = bytes_[s.owners[i]];
    if (grows && slots_[s.owners[i]].changed) bytes += bytes / 4 + kAlignment;
    s.reserved[i] = bytes;
    index[s.owners[i]] = static_cast<int32_t>(i);
    lives.push_back({bytes, static_cast<int32_t>(p.first), static_cast<int32_t>(p.last)});
  }
  // An output that takes over its input joins that input's lifetime.
  std::vector<int32_t> joined(lives.size());
  for (size_t i = 0; i < joined.size(); ++i) joined[i] = static_cast<int32_t>(i);
  for (uint32_t k = begin; k < end; ++k) {
    const Step& step = plan_->steps()[k];
    if (step.inplace < 0) continue;
    const uint32_t in = plan_->args(step.in, step.in_count)[static_cast<size_t>(step.inplace)],
                   out = plan_->args(step.out, step.out_count)[0];
    uint32_t root = in;
    while (plans[root].place == Place::view) root = view_source(root);
    if (bytes_[in] != bytes_[out] || bytes_[root] != bytes_[out] || index[root] < 0) continue;
    s.takeovers.push_back({in, out});
    const int32_t into = joined[static_cast<size_t>(index[root])];
    const auto own = static_cast<size_t>(index[out]);
    lives[static_cast<size_t>(into)].last = std::max(lives[static_cast<size_t>(into)].last, lives[own].last);
    lives[static_cast<size_t>(into)].bytes = std::max(lives[static_cast<size_t>(into)].bytes, lives[own].bytes);
    lives[own].bytes = 0;
    joined[own] = into;
  }
  std::vector<size_t> scratch_life;
  for (const uint32_t k : s.with_scratch) {
    const Step& step = plan_->steps()[begin + k];
    int64_t lane = scratch_of(step);
    if (grows) lane = round_up(lane + lane / 4, kAlignment);
    s.scratch[k].bytes = lane;
    s.scratch[k].body_bytes = body_bytes_of(step);
    scratch_life.push_back(lives.size());
    lives.push_back({lane * scope_.threads + s.scratch[k].body_bytes, static_cast<int32_t>(begin + k),
                     static_cast<int32_t>(begin + k)});
  }
  const Offsets offsets = assign_offsets(lives);
  if (offsets.slab_bytes > scope_.max_run_bytes)
    return error(Code::fail, "the run wants {} bytes for activations, more than {}", offsets.slab_bytes,
                 scope_.max_run_bytes);
  for (size_t i = 0; i < s.owners.size(); ++i) s.offset[i] = offsets.offset[static_cast<size_t>(joined[i])];
  for (size_t i = 0; i < s.owners.size(); ++i)
    s.reserved[i] = std::max(s.reserved[i], lives[static_cast<size_t>(joined[i])].bytes);
  for (size_t i = 0; i < s.with_scratch.size(); ++i) {
    Scratch& scratch = s.scratch[s.with_scratch[i]];
    scratch.offset = offsets.offset[scratch_life[i]];
    scratch.body_offset = scratch.offset + scratch.bytes * scope_.threads;
  }
  s.bytes = offsets.slab_bytes;
  s.pointed = nullptr;
  stats_.planned_peak = segment == 0 ? offsets.peak_bytes : std::max(stats_.planned_peak, offsets.peak_bytes);
  ++stats_.replans;
  return {};
}

uint32_t Context::view_source(uint32_t slot) const {
  const Step& step = plan_->steps()[plan_->slots()[slot].first];
  return plan_->args(step.in, step.in_count)[static_cast<size_t>(step.op->view)];
}

// What the enclosing run lent, while it lasts; else a slab of its own.
Result<std::byte*> Context::memory_for(Segment& s) {
  const auto size = static_cast<size_t>(round_up(s.bytes, kAlignment));
  if (size <= lent_.size()) {
    std::byte* base = lent_.data();
    lent_ = lent_.subspan(size);
    return base;
  }
  TRY_ASSIGN(slab, slabs_.acquire(s.bytes));
  s.slab = std::move(slab);
  return s.slab->data();
}

Status Context::point_slots(int segment) {
  Segment& s = segments_[static_cast<size_t>(segment)];
  if (s.bytes == 0) return {};
  TRY_ASSIGN(base, memory_for(s));
  s.base = base;
  if (s.pointed == s.base) return {};
  for (size_t i = 0; i < s.owners.size(); ++i) slots_[s.owners[i]].data = s.base + s.offset[i];
  s.pointed = s.base;
  return {};
}

Status Context::place_outputs(int segment, std::span<Value> outputs) {
  for (size_t i = 0; i < plan_->outputs().size(); ++i) {
    const uint32_t slot = plan_->outputs()[i];
    const SlotPlan& p = plan_->slots()[slot];
    if (p.place != Place::output || p.segment != segment) continue;
    // A value named twice is computed into its first place and shared with the others afterwards.
    const auto first = plan_->outputs().begin();
    if (std::find(first, first + static_cast<std::ptrdiff_t>(i), slot) != first + static_cast<std::ptrdiff_t>(i))
      continue;
    Slot& s = slots_[slot];
    Tensor* given = outputs[i].tensor();
    if (!given || given->dtype() != p.type.dtype || !(given->shape() == s.shape)) {
      TRY_ASSIGN(fresh, Tensor::allocate(p.type.dtype, s.shape));
      outputs[i] = std::move(fresh);
      given = outputs[i].tensor();
    }
    s.dtype = p.type.dtype;
    s.data = given->mutable_data();
  }
  return {};
}

Status Context::bind(int segment, std::span<Value> outputs, bool body_grew) {
  Segment& s = segments_[static_cast<size_t>(segment)];
  const auto begin = plan_->segment_begin()[static_cast<size_t>(segment)],
             end = plan_->segment_begin()[static_cast<size_t>(segment) + 1];
  for (const uint32_t slot : plan_->segment_content()[static_cast<size_t>(segment)])
    slots_[slot].known = slots_[slot].changed = true;
  if (!s.bound || anything_changed_ || body_grew || segment > 0) {
    ++stats_.binds;
    for (uint32_t k = begin; k < end; ++k) {
      const Step& step = plan_->steps()[k];
      if (!step.planned) continue;
      if (Status status = bind_step(step); !status.ok()) return std::move(status).in(step.node->title());
    }
    if (!s.bound || !fits(s, segment)) TRY(assign_memory(segment));
    s.bound = true;
  }
  TRY(point_slots(segment));
  return place_outputs(segment, outputs);
}

namespace {

// Converts between a value's own type and the type its kernel works in, in pieces of fixed size.
template <class Wide>
void widen_as(const Slot& from, Slot& to, const RunScope& scope) {
  const int64_t n = from.shape.count();
  constexpr int64_t kPiece = 1 << 14;
  parallel_for(scope.threads, ceil_div(n, kPiece), [&](int64_t chunk, int) {
    const int64_t at = chunk * kPiece, count = std::min(kPiece, n - at);
    Wide* out = static_cast<Wide*>(to.data) + at;
    if constexpr (std::is_same_v<Wide, float>) {
      const auto* half = static_cast<const uint16_t*>(from.data) + at;
      if (from.dtype == DType::f16) return f16_to_f32(scope.target, half, out, count);
      if (from.dtype == DType::bf16) return bf16_to_f32(scope.target, half, out, count);
    }
    decode(from.dtype, from.data, at, count, out);
  });
}
template <class Wide>
void narrow_as(const Slot& from, Slot& to, const RunScope& scope) {
  const int64_t n = from.shape.count();
  constexpr int64_t kPiece = 1 << 14;
  parallel_for(scope.threads, ceil_div(n, kPiece), [&](int64_t chunk, int) {
    const int64_t at = chunk * kPiece, count = std::min(kPiece, n - at);
    const Wide* in = static_cast<const Wide*>(from.data) + at;
    if constexpr (std::is_same_v<Wide, float>) {
      auto* half = static_cast<uint16_t*>(to.data) + at;
      if (to.dtype == DType::f16) return f32_to_f16(scope.target, in, half, count);
      if (to.dtype == DType::bf16) return f32_to_bf16(scope.target, in, half, count);
    }
    encode(to.dtype, to.data, at, count, in);
  });
}
// int32 is the compute type of small integers.
void widen_ints(const Slot& from, Slot& to) {
  const int64_t n = from.shape.count();
  for (int64_t at = 0; at < n; at += 512) {
    int64_t piece[512];
    const int64_t count = std::min<int64_t>(512, n - at);
    decode(from.dtype, from.data, at, count, piece);
    encode(to.dtype, to.data, at, count, piece);
  }
}

}  // namespace

Status Context::run_step(const Step& step, const std::byte* slab, const Scratch& scratch) {
  if (step.view) {
    const uint32_t from = plan_->args(step.in, step.in_count)[static_cast<size_t>(step.op->view)];
    slots_[plan_->args(step.out, step.out_count)[0]].data = slots_[from].data;
    return {};
  }
  for (const Conversion& c : step.widen) {
    Slot &from = slots_[c.from], &to = slots_[c.to];
    if (to.dtype == DType::f32)
      widen_as<float>(from, to, scope_);
    else if (to.dtype == DType::f64)
      widen_as<double>(from, to, scope_);
    else
      widen_ints(from, to);
  }
  Call::Frame frame = frame_of(step);
  for (size_t b = 0; b < step.bodies.size(); ++b)
    bodies_[step.first_body + b]->lend(
        {const_cast<std::byte*>(slab) + scratch.body_offset, static_cast<size_t>(scratch.body_bytes)});
  if (scratch.bytes > 0) {
    frame.scratch = const_cast<std::byte*>(slab) + scratch.offset;
    frame.scratch_bytes = scratch.bytes;
  }
  Call call(frame);
  TRY(step.compute(step.node->params.get(), call));
  if (!step.planned)
    for (const uint32_t o : frame.out)
      if (o) TRY(check_type(o, held_[o]));
  for (const Conversion& c : step.narrow) {
    Slot &from = slots_[c.from], &to = slots_[c.to];
    if (from.dtype == DType::f32)
      narrow_as<float>(from, to, scope_);
    else if (from.dtype == DType::f64)
      narrow_as<double>(from, to, scope_);
    else
      widen_ints(from, to);
  }
  return {};
}

Status Context::execute(int segment, Profile* profile) {
  const Segment& s = segments_[static_cast<size_t>(segment)];
  const auto begin = plan_->segment_begin()[static_cast<size_t>(segment)],
             end = plan_->segment_begin()[static_cast<size_t>(segment) + 1];
  const std::byte* base = s.base;
  for (uint32_t k = begin; k < end; ++k) {
    const Step& step = plan_->steps()[k];
    if (step.at_bind) continue;
    if (scope_.cancel && scope_.cancel->load(std::memory_order_relaxed))
      return error(Code::canceled, "the run was cancelled");
    const int64_t start = profile ? now_ns() : 0;
    if (Status status = run_step(step, base, s.scratch[k - begin]); !status.ok())
      return std::move(status).in(step.node->title());
    if (profile) profile->entries.push_back({step.node->name, step.node->op_type, start, now_ns() - start});
  }
  return {};
}

// A value that was not written in place. A body shares whatever outlives the run. Callers get tensors of their own:
// what inputs, constants or other values also hold is copied.
Result<Value> Context::output_of(uint32_t slot) {
  const Tensor* t = held_[slot].tensor();
  if (!t) return held_[slot];
  const bool owned = t->storage() && t->storage()->origin() == Bytes::Origin::owned;
  const bool lent = !t->storage() || t->storage()->origin() == Bytes::Origin::borrowed;
  if (outer_ ? !lent : (owned && t->unique() && plan_->slots()[slot].place == Place::held)) return held_[slot];
  const uint32_t in[] = {slot};
  Value shared = std::move(held_[slot]);
  held_[slot] = Value();
  Call::Frame f{};
  f.slots = slots_.data();
  f.held = held_.data();
  f.in = in;
  Result<Value> copy = Call(f).value(0);
  held_[slot] = std::move(shared);
  return copy;
}

Status Context::collect_outputs(std::span<Value> outputs) {
  for (size_t i = 0; i < plan_->outputs().size(); ++i) {
    const uint32_t slot = plan_->outputs()[i];
    if (plan_->slots()[slot].place == Place::output) {
      // The same value named twice among the outputs.
      for (size_t j = 0; j < i; ++j)
        if (plan_->outputs()[j] == slot) outputs[i] = outputs[j];
      continue;
    }
    TRY_ASSIGN(v, output_of(slot));
    outputs[i] = std::move(v);
  }
  return {};
}

Status Context::ready_packs() {
  for (size_t k = 0; k < plan_->steps().size() && !packs_ready_; ++k)
    for (size_t i = 0; i < plan_->steps()[k].packed.size(); ++i)
      if (const uint32_t index = plan_->steps()[k].packed[i]) {
        if (scope_.cancel && scope_.cancel->load(std::memory_order_relaxed))
          return error(Code::canceled, "the run was cancelled");
        TRY_ASSIGN(data, plan_->packed(index - 1, scope_.threads));
        packed_[packed_begin_[k] + i] = data;
      }
  packs_ready_ = true;
  return {};
}

Status Context::run_segments(std::span<Value> outputs, Profile* profile) {
  TRY(ready_packs());
  const bool grew = std::exchange(body_grew_, false);
  for (int segment = 0; segment < plan_->segments(); ++segment) {
    const int64_t before = profile ? now_ns() : 0;
    TRY(bind(segment, outputs, grew));
    if (profile) profile->bind_ns += now_ns() - before;
    TRY(execute(segment, profile));
  }
  return collect_outputs(outputs);
}

// Values of this run are let go; constants and what binding computed stay.
void Context::finish_run(bool ok) {
  stats_.slab_bytes = 0;
  for (Segment& s : segments_) {
    stats_.slab_bytes += round_up(s.bytes, kAlignment);
    if (!ok) s.bound = false;
  }
  anything_changed_ = !ok;
  for (const uint32_t s : of_one_run_) {
    held_[s] = Value();
    slots_[s].data = nullptr;
  }
  if (body_grew_ && !outer_) slabs_.trim();  // the next run lends bodies what they took on their own in this one
  release_slabs();
}

Status Context::run(std::span<const Value> inputs, std::span<Value> outputs, const RunScope& scope, Profile* profile) {
  const int64_t start = profile ? now_ns() : 0;
  set_scope(scope);
  Status status = set_inputs(inputs, {});
  if (status.ok()) status = run_segments(outputs, profile);
  finish_run(status.ok());
  if (profile) profile->total_ns = now_ns() - start;
  return status;
}

Status Context::run_body(const Context& outer, std::span<Value> inputs, std::span<Value> outputs, const RunScope& scope,
                         std::span<std::byte> lent) {
  outer_ = &outer;
  lent_ = lent;
  set_scope(scope);
  Status status = set_inputs({}, inputs);
  if (status.ok()) status = set_captures();
  if (status.ok()) status = run_segments(outputs, nullptr);
  finish_run(status.ok());
  return status;
}

void Context::set_scope(const RunScope& scope) {
  if (scope.threads != scope_.threads)
    for (Segment& s : segments_) s.bound = false;
  scope_ = scope;
}

}  // namespace tessera
