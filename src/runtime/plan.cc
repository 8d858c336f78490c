#include "runtime/plan.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "core/convert.h"

namespace tessera {

class PlanBuilder {
 public:
  PlanBuilder(std::shared_ptr<const ir::Graph> graph, const PlanOptions& options, Counters& counters)
      : options_(options), counters_(counters), plan_(new Plan) {
    plan_->graph_ = std::move(graph);
  }

  Result<std::shared_ptr<const Plan>> build() {
    TRY(add_values());
    for (const ir::NodeId id : options_.order) {
      const ir::Node& n = graph().node(id);
      if (Status s = add_step(n); !s.ok()) return std::move(s).in(n.title());
    }
    if (options_.keep_wide) keep_values_wide();
    choose_steps_at_bind();
    cut_segments();
    place_values();
    TRY(keep_constants());
    return std::shared_ptr<const Plan>(std::move(plan_));
  }

 private:
  const ir::Graph& graph() const { return *plan_->graph_; }
  static uint32_t slot_of(ir::ValueId id) { return id == ir::kNone ? 0 : id + 1; }

  static TypeDesc type_of(const Fact& f) {
    TypeDesc t{f.kind, f.dtype, Kind::tensor};
    const Fact* inner = &f;
    while (inner->element) inner = inner->element.get();
    if (f.element) {
      t.inner = f.element->kind;
      t.dtype = inner->dtype;
    }
    return t;
  }

  Status add_values() {
    plan_->slots_.resize(graph().values().size() + 1);
    plan_->slots_[0].type.kind = Kind::unknown;
    for (ir::ValueId id = 0; id < graph().values().size(); ++id) {
      const ir::ValueInfo& v = graph().value(id);
      SlotPlan& s = plan_->slots_[id + 1];
      s.type = type_of(v.fact);
      if (v.is_input || v.source == ir::Source::input) {
        s.place = Place::input;
      } else if (v.source == ir::Source::captured) {
        const uint32_t outer = v.outer + 1;
        if (outer < options_.outer_types.size()) s.type = options_.outer_types[outer];
        const PlanConstant* c = outer < options_.outer_constants.size() ? options_.outer_constants[outer] : nullptr;
        s.place = c ? Place::constant : Place::captured;
        if (c)
          plan_->constants_.push_back({id + 1, c->tensor, c->weight});
        else
          plan_->captures_.push_back({id + 1, outer});
      } else if (v.source == ir::Source::initializer) {
        s.place = Place::constant;
      }
    }
    for (size_t i = 0; i < graph().inputs().size(); ++i) {
      const uint32_t slot = slot_of(graph().inputs()[i]);
      plan_->inputs_.push_back(slot);
      TypeDesc& t = plan_->slots_[slot].type;
      const bool untyped = t.kind == Kind::unknown || (t.kind == Kind::tensor && t.dtype == DType::undefined);
      if (untyped && i < options_.input_types.size()) t = options_.input_types[i];
    }
    for (const ir::ValueId id : graph().outputs()) plan_->outputs_.push_back(slot_of(id));
    return add_constants();
  }

  // Only weights that somebody reads are looked at.
  Status add_constants() {
    std::vector<bool> used(graph().values().size(), false);
    for (const ir::NodeId id : options_.order)
      ir::for_each_read(graph().node(id), [&](ir::ValueId v) { used[v] = true; });
    for (const ir::ValueId id : graph().outputs()) used[id] = true;
    for (ir::ValueId id = 0; id < graph().values().size(); ++id) {
      const Weight* w = graph().weight_of(id);
      if (!w || (!used[id] && !graph().value(id).is_input)) continue;
      Result<Tensor> t = w->tensor(&counters_.bytes_copied);
      if (!t.ok()) return t.take_status().in(format("initializer {}", quote(graph().value(id).name)));
      plan_->constants_.push_back({id + 1, std::move(*t), w});
    }
    constant_index_.assign(plan_->slots_.size(), -1);
    for (size_t i = 0; i < plan_->constants_.size(); ++i)
      constant_index_[plan_->constants_[i].slot] = static_cast<int>(i);
    return {};
  }

  uint32_t add_slot(TypeDesc type, Place place) {
    plan_->slots_.push_back({});
    plan_->slots_.back().type = type;
    plan_->slots_.back().place = place;
    constant_index_.push_back(-1);
    return static_cast<uint32_t>(plan_->slots_.size() - 1);
  }

  Status add_step(const ir::Node& n) {
    Step step;
    step.node = &n;
    step.op = n.op;
    if (!n.op) return not_implemented("the node was not resolved");
    std::vector<uint32_t> in, out;
    for (const ir::ValueId v : n.inputs) in.push_back(slot_of(v));
    for (const ir::ValueId v : n.outputs) out.push_back(slot_of(v));
    TRY(add_bodies(n, in, step));
    TRY(find_types(n, in, out, step));
    TRY(choose(n, in, out, step));
    TRY(add_packs(n, in, step));
    if (n.op->prepare) TRY(n.op->prepare(n.params.get(), &step.prepared));
    step.in = static_cast<uint32_t>(plan_->args_.size());
    step.in_count = static_cast<uint32_t>(in.size());
    plan_->args_.insert(plan_->args_.end(), in.begin(), in.end());
    step.out = step.result = static_cast<uint32_t>(plan_->args_.size());
    step.out_count = static_cast<uint32_t>(out.size());
    plan_->args_.insert(plan_->args_.end(), out.begin(), out.end());
    if (!step.narrow.empty()) {
      step.result = static_cast<uint32_t>(plan_->args_.size());
      for (const ir::ValueId v : n.outputs) plan_->args_.push_back(slot_of(v));
    }
    plan_->steps_.push_back(std::move(step));
    return {};
  }

  Status add_bodies(const ir::Node& n, std::span<const uint32_t> in, Step& step) {
    std::vector<TypeDesc> input_types, outer;
    std::vector<const PlanConstant*> outer_constants;
    for (const uint32_t s : in) {
      const TypeDesc& t = plan_->slots_[s].type;
      const bool element = n.op->maps_elements && t.kind == Kind::sequence;
      input_types.push_back(element ? TypeDesc{t.inner, t.dtype, Kind::tensor} : t);
    }
    Status status;
    ir::for_each_subgraph(n, [&](const std::string& name, const std::shared_ptr<ir::Graph>& sub) {
      if (!status.ok()) return;
      if (outer.empty())
        for (uint32_t s = 0; s < plan_->slots_.size(); ++s) {
          const bool constant = plan_->slots_[s].place == Place::constant && constant_index_[s] >= 0;
          outer.push_back(plan_->slots_[s].type);
          outer_constants.push_back(constant ? &plan_->constants_[static_cast<size_t>(constant_index_[s])] : nullptr);
        }
      const auto order = ir::topological_order(*sub);
      if (!order.ok()) {
        status = Status(order.status().code(), order.status().message());
        return;
      }
      PlanOptions inner = options_;
      inner.order = *order;
      inner.outer_types = outer;
      inner.outer_constants = outer_constants;
      inner.input_types = input_types;
      inner.kept = options_.kept ? options_.kept : &kept_;
      auto body = Plan::build(sub, inner, counters_);
      if (!body.ok()) {
        status = body.take_status().in(name);
        return;
      }
      step.bodies.push_back(std::move(*body));
    });
    step.first_body = plan_->body_count_;
    plan_->body_count_ += static_cast<uint32_t>(step.bodies.size());
    return status;
  }

  Status find_types(const ir::Node& n, std::span<const uint32_t> in, std::span<const uint32_t> out, const Step& step) {
    std::vector<TypeDesc> types_in, types_out(out.size());
    for (const uint32_t s : in) types_in.push_back(plan_->slots_[s].type);
    // An operator without inputs still has an input 0 to copy nothing from.
    if (types_in.empty()) types_in.push_back({Kind::unknown, DType::undefined, Kind::tensor});
    std::vector<std::vector<TypeDesc>> bodies;
    for (const auto& b : step.bodies) {
      bodies.emplace_back();
      for (const uint32_t s : b->outputs()) bodies.back().push_back(b->slots()[s].type);
    }
    TypeCall call{n, n.params.get(), types_in, types_out, bodies};
    n.op->types(call);
    for (size_t o = 0; o < out.size(); ++o) {
      if (out[o] == 0) continue;
      TypeDesc& known = plan_->slots_[out[o]].type;
      const TypeDesc& found = types_out[o];
      if (found.dtype == DType::undefined && (found.kind == Kind::tensor || found.kind == known.kind))
        continue;  // known only when it runs
      if (known.kind == Kind::tensor && found.kind == Kind::tensor && known.dtype != DType::undefined &&
          known.dtype != found.dtype)
        return invalid_graph("its output {} is {}, but is declared as {}", quote(plan_->graph().value(out[o] - 1).name),
                             name_of(found.dtype), name_of(known.dtype));
      known = found;
    }
    return {};
  }

  // Picks the kernel, and gives arguments of other types temporary slots.
  Status choose(const ir::Node& n, std::vector<uint32_t>& in, std::vector<uint32_t>& out, Step& step) {
    // An argument that is there but of unknown type is no tensor that a rule could accept; unknown means absent below.
    const auto type_at = [&](uint32_t s) {
      const TypeDesc& t = plan_->slots_[s].type;
      return s && t.kind == Kind::unknown ? TypeDesc{Kind::opaque, t.dtype, t.inner} : t;
    };
    std::vector<TypeDesc> types_in, types_out;
    for (const uint32_t s : in) types_in.push_back(type_at(s));
    for (const uint32_t s : out) types_out.push_back(type_at(s));
    std::vector<DType> convert(in.size() + out.size(), DType::undefined);
    const Kernel* kernel = choose_kernel(*n.op, types_in, types_out, convert);
    if (!kernel) {
      std::string got;
      for (const TypeDesc& t : types_in)
        got += (got.empty() ? "" : ", ") + std::string(t.kind == Kind::unknown ? "-" : name_of(t.dtype));
      return not_implemented("there is no kernel for inputs of types ({})", got);
    }
    step.compute = kernel->compute;
    step.planned = n.op->shape != nullptr;
    for (const TypeDesc& t : types_out)
      step.planned = step.planned && (t.kind == Kind::tensor || t.kind == Kind::unknown);
    for (size_t i = 0; i < in.size(); ++i) {
      if (convert[i] == DType::undefined || in[i] == 0) continue;
      const TypeDesc wide{Kind::tensor, convert[i], Kind::tensor};
      if (plan_->slots_[in[i]].place == Place::constant) {
        if (is_packed_as_it_is(n, in, i)) continue;
        TRY_ASSIGN(slot, widened_constant(in[i], wide.dtype));
        in[i] = slot;
      } else {
        const uint32_t temp = add_slot(wide, Place::slab);
        step.widen.push_back({in[i], temp});
        in[i] = temp;
      }
    }
    for (size_t o = 0; o < out.size(); ++o) {
      if (convert[in.size() + o] == DType::undefined || out[o] == 0) continue;
      const uint32_t temp = add_slot({Kind::tensor, convert[in.size() + o], Kind::tensor}, Place::slab);
      step.narrow.push_back({temp, out[o]});
      out[o] = temp;
    }
    // Without a shape function nobody knows how much memory the converted values want.
    if (!step.planned && !(step.widen.empty() && step.narrow.empty()))
      return not_implemented("half floats or small integers cannot be converted for an operator without shapes");
    return {};
  }

  Result<uint32_t> widened_constant(uint32_t slot, DType wide) {
    const PlanConstant& from = plan_->constants_[static_cast<size_t>(constant_index_[slot])];
    const Tensor source = from.tensor;
    const Weight* weight = from.weight;
    TRY_ASSIGN(t, Tensor::allocate(wide, source.shape()));
    const int64_t n = source.count();
    switch (wide) {
      case DType::f32: decode(source.dtype(), source.data(), 0, n, static_cast<float*>(t.mutable_data())); break;
      case DType::f64: decode(source.dtype(), source.data(), 0, n, static_cast<double*>(t.mutable_data())); break;
      default: {
        std::vector<int64_t> whole(static_cast<size_t>(n));
        decode(source.dtype(), source.data(), 0, n, whole.data());
        encode(wide, t.mutable_data(), 0, n, whole.data());
      }
    }
    counters_.bytes_copied += t.bytes();
    const uint32_t id = add_slot({Kind::tensor, wide, Kind::tensor}, Place::constant);
    constant_index_[id] = static_cast<int>(plan_->constants_.size());
    plan_->constants_.push_back({id, std::move(t), weight});
    return uint32_t{id};
  }

  // True if an input goes into a pack in the type that the model gave it.
  bool is_packed_as_it_is(const ir::Node& n, std::span<const uint32_t> in, size_t i) const {
    for (const Packing& p : n.op->packs)
      if ((static_cast<size_t>(p.input) == i || (i < 32 && p.with >> i & 1)) && pack_of(n, p, in)) return true;
    return false;
  }

  // The pack that `p` makes of a node's constants, if it can.
  std::optional<Pack> pack_of(const ir::Node& n, const Packing& p, std::span<const uint32_t> in) const {
    const auto main = static_cast<size_t>(p.input);
    if (!options_.pack || main >= in.size() || !in[main]) return std::nullopt;
    Pack pack{std::vector<int>(in.size(), -1), &p, n.params, 0, nullptr, {}};
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i] || (i != main && (i >= 32 || !(p.with >> i & 1)))) continue;
      if (plan_->slots_[in[i]].place != Place::constant) return std::nullopt;
      pack.constants[i] = constant_index_[in[i]];
    }
    const std::vector<const Tensor*> tensors = plan_->tensors_of(pack);
    if (!p.types.has(tensors[main]->dtype())) return std::nullopt;
    pack.bytes = p.bytes({n.params.get(), tensors});
    return pack.bytes > 0 ? std::optional(std::move(pack)) : std::nullopt;
  }

  Status add_packs(const ir::Node& n, std::span<const uint32_t> in, Step& step) {
    for (const Packing& p : n.op->packs) {
      std::optional<Pack> pack = pack_of(n, p, in);
      if (!pack) continue;
      find_packed(*pack);
      plan_->packs_.push_back(*std::move(pack));
      step.packed.resize(in.size());
      step.packed[static_cast<size_t>(p.input)] = static_cast<uint32_t>(plan_->packs_.size());
    }
    return {};
  }

  // Another session's, one in the pack file, or one to be made.
  void find_packed(Pack& pack) {
    const PackForm form = plan_->form_of(pack);
    const PackWeights weights = plan_->weights_of(pack);
    bool known = false;
    pack.packed = share_packed(form, weights, &known);
    if (std::any_of(weights.begin(), weights.end(), [](const Weight& w) { return w.is_passing(); }))
      pack.name = {pack_key(form, weights), source_digest(weights)};
    Counters& counters = plan_->pack_counters_;
    if (known) ++counters.packs_shared;
    if (!options_.packs) return;
    ByteRange bytes;
    const PackFile::Match match = options_.packs->find(pack_key(form, weights), weights, &bytes);
    if (match != PackFile::Match::good || static_cast<int64_t>(bytes.length) != pack.bytes) {
      ++counters.packs_stale;
    } else if (!known) {
      pack.packed->found(std::move(bytes));
      ++counters.packs_mapped;
    }
  }

  // A value that is narrowed by the step that makes it, only to be widened again by all who read it, stays wide.
  void keep_values_wide() {
    const size_t n = graph().values().size() + 1;
    std::vector<DType> wide(n, DType::undefined);
    for (const Step& step : plan_->steps_)
      for (const Conversion& c : step.narrow)
        if (step.planned) wide[c.to] = plan_->slots_[c.from].type.dtype;
    std::vector<int> narrow_reads(n, 0);
    for (const uint32_t o : plan_->outputs_) ++narrow_reads[o];
    for (const Step& step : plan_->steps_) {
      ir::for_each_read(*step.node, [&](ir::ValueId v) { ++narrow_reads[v + 1]; });
      for (size_t i = 0; i < step.node->inputs.size(); ++i)
        if (reads_header(step, i)) --narrow_reads[slot_of(step.node->inputs[i])];
      for (const Conversion& c : step.widen)
        if (plan_->slots_[c.to].type.dtype == wide[c.from] && !reads_rounded(step, c.to)) --narrow_reads[c.from];
    }
    const auto stays = [&](uint32_t slot) {
      return slot < n && wide[slot] != DType::undefined && narrow_reads[slot] == 0;
    };
    for (Step& step : plan_->steps_) {
      std::erase_if(step.widen, [&](const Conversion& c) { return stays(c.from) && unify(step, c.to, c.from); });
      std::erase_if(step.narrow, [&](const Conversion& c) { return stays(c.to) && unify(step, c.from, c.to); });
    }
    for (uint32_t s = 1; s < n; ++s)
      if (stays(s)) plan_->slots_[s].type.dtype = wide[s];
  }
  bool reads_rounded(const Step& step, uint32_t temp) const {
    const auto in = ins(step);
    for (size_t i = 0; i < in.size() && i < 32; ++i)
      if (in[i] == temp && (step.op->rounded >> i & 1)) return true;
    return false;
  }
  // Puts a slot of the graph in the place of a temporary one.
  bool unify(const Step& step, uint32_t temp, uint32_t slot) {
    for (uint32_t k = step.in; k < step.result + step.out_count; ++k)
      if (plan_->args_[k] == temp) plan_->args_[k] = slot;
    plan_->slots_[temp].place = Place::absent;
    return true;
  }

  // Makes the plan independent of memory that is there only now: packs what is packed of it, copies what is read of it.
  Status keep_constants() {
    const auto passing = [](const PlanConstant& c) {
      const BytesPtr& b = c.tensor.storage();
      return (c.weight && c.weight->is_passing()) || (b && b->origin() == Bytes::Origin::passing);
    };
    if (std::none_of(plan_->constants_.begin(), plan_->constants_.end(), passing)) return {};
    for (uint32_t i = 0; i < plan_->packs_.size(); ++i) {
      if (!plan_->packs_[i].name) continue;
      TRY_ASSIGN(data, plan_->packed(i, {options_.threads, options_.cancel}));
      static_cast<void>(data);
    }
    std::vector<bool> read(plan_->slots_.size(), false);
    for (const uint32_t o : plan_->outputs_) read[o] = true;
    for (const uint32_t i : plan_->inputs_) read[i] = true;
    for (const Step& step : plan_->steps_) {
      const auto in = ins(step);
      for (size_t i = 0; i < in.size(); ++i)
        if (i >= step.packed.size() || !step.packed[i]) read[in[i]] = true;
    }
    for (PlanConstant& c : plan_->constants_)
      if (passing(c)) TRY(keep_constant(c, read[c.slot]));
    return {};
  }
  Status keep_constant(PlanConstant& c, bool read) {
    c.weight = nullptr;
    const BytesPtr& storage = c.tensor.storage();
    if (!storage || storage->origin() != Bytes::Origin::passing) return {};
    BytesPtr own;
    if (read) {
      KeptConstants& all = options_.kept ? *options_.kept : kept_;
      BytesPtr& kept = all[{c.tensor.data(), c.tensor.bytes()}];
      if (!kept) {
        const auto size = static_cast<size_t>(c.tensor.bytes());
        TRY_ASSIGN(copy, allocate_bytes(size));
        if (size) std::memcpy(copy->data(), c.tensor.data(), size);
        counters_.bytes_copied += c.tensor.bytes();
        kept = std::move(copy);
      }
      own = kept;
    }
    c.tensor = Tensor(c.tensor.dtype(), c.tensor.shape(), std::move(own));
    return {};
  }

  std::span<const uint32_t> ins(const Step& s) const { return plan_->args(s.in, s.in_count); }
  std::span<const uint32_t> outs(const Step& s) const { return plan_->args(s.result, s.out_count); }
  static bool reads_header(const Step& s, size_t i) { return i < 32 && (s.op->header_only >> i & 1); }
  static bool reads_for_shape(const Step& s, size_t i) { return i < 32 && s.planned && (s.op->shape_inputs >> i & 1); }

  // Values whose content can be had while shapes are bound, and the steps that must run then because a shape asks for
  // them.
  void choose_steps_at_bind() {
    const size_t n = plan_->slots_.size();
    std::vector<bool> bindable(n, false), needed(n, false);
    for (size_t s = 1; s < n; ++s) {
      const SlotPlan& slot = plan_->slots_[s];
      bindable[s] =
          slot.place == Place::constant || ((slot.place == Place::input || slot.place == Place::captured) &&
                                            slot.type.kind == Kind::tensor && slot.type.dtype != DType::string);
    }
    for (const Step& step : plan_->steps_) {
      bool ok = step.planned && !step.op->scratch && !step.op->random && step.bodies.empty() && step.widen.empty() &&
                step.narrow.empty();
      const auto in = ins(step);
      for (size_t i = 0; i < in.size(); ++i) ok = ok && (in[i] == 0 || reads_header(step, i) || bindable[in[i]]);
      for (const uint32_t o : outs(step)) bindable[o] = o && ok && plan_->slots_[o].type.dtype != DType::string;
    }
    for (size_t k = plan_->steps_.size(); k-- > 0;) {
      Step& step = plan_->steps_[k];
      const auto in = ins(step);
      for (const uint32_t o : outs(step)) step.at_bind = step.at_bind || (o && needed[o] && bindable[o]);
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i] && (reads_for_shape(step, i) || (step.at_bind && !reads_header(step, i)))) needed[in[i]] = true;
    }
    for (size_t s = 1; s < n; ++s) {
      SlotPlan& slot = plan_->slots_[s];
      slot.content_bound = needed[s] && (slot.place == Place::input || slot.place == Place::captured);
    }
    known_.assign(n, false);
    for (size_t s = 1; s < n; ++s)
      known_[s] = plan_->slots_[s].place == Place::constant || plan_->slots_[s].content_bound;
    for (const Step& step : plan_->steps_)
      if (step.at_bind)
        for (const uint32_t o : outs(step)) known_[o] = o != 0;
  }

  // A new segment starts before a step whose shape asks for something that an earlier step has yet to compute.
  void cut_segments() {
    std::vector<int> shape_late(plan_->slots_.size(), -1);    // segment in which a shape becomes known by running
    std::vector<int> content_late(plan_->slots_.size(), -1);  // segment in which content is computed
    int segment = 0;
    plan_->segment_begin_.push_back(0);
    plan_->segment_content_.emplace_back();
    for (uint32_t k = 0; k < plan_->steps_.size(); ++k) {
      Step& step = plan_->steps_[k];
      const auto in = ins(step);
      bool cut = false;
      std::vector<uint32_t> content;
      for (size_t i = 0; i < in.size() && step.planned; ++i) {
        if (!in[i]) continue;
        cut = cut || shape_late[in[i]] == segment;
        if (reads_for_shape(step, i) && !known_[in[i]]) {
          content.push_back(in[i]);
          cut = cut || content_late[in[i]] == segment;
        }
      }
      for (const Conversion& c : step.widen) cut = cut || shape_late[c.from] == segment;
      if (cut) {
        ++segment;
        plan_->segment_begin_.push_back(k);
        plan_->segment_content_.emplace_back();
      }
      step.segment = segment;
      auto& wanted = plan_->segment_content_.back();
      wanted.insert(wanted.end(), content.begin(), content.end());
      for (const uint32_t o : outs(step)) {
        if (!o) continue;
        plan_->slots_[o].segment = segment;
        if (!step.planned) shape_late[o] = segment;
        if (!step.at_bind) content_late[o] = segment;
      }
    }
    plan_->segments_ = segment + 1;
    plan_->segment_begin_.push_back(static_cast<uint32_t>(plan_->steps_.size()));
  }

  // Lifetimes, views and takeovers.
  void place_values() {
    std::vector<uint32_t> root(plan_->slots_.size());
    for (uint32_t s = 0; s < root.size(); ++s) root[s] = s;
    std::vector<bool> is_output(plan_->slots_.size(), false);
    for (const uint32_t o : plan_->outputs_) is_output[o] = true;
    std::vector<uint32_t> last(plan_->slots_.size(), 0);
    for (uint32_t k = 0; k < plan_->steps_.size(); ++k) {
      Step& step = plan_->steps_[k];
      for (const uint32_t o : outs(step)) {
        if (!o) continue;
        SlotPlan& slot = plan_->slots_[o];
        slot.first = k;
        const bool planned = step.planned && slot.type.dtype != DType::string && !step.at_bind;
        slot.place = !planned ? Place::held : is_output[o] ? Place::output : Place::slab;
      }
      for (const auto* list : {&step.widen, &step.narrow})
        for (const Conversion& c : *list) {
          const uint32_t temp =
              plan_->slots_[c.to].place == Place::slab && c.to > graph().values().size() ? c.to : c.from;
          plan_->slots_[temp].first = plan_->slots_[temp].last = k;
          plan_->slots_[temp].segment = step.segment;
        }
      const auto in = ins(step);
      if (step.op->view >= 0 && step.planned && !step.at_bind && step.widen.empty() && step.out_count > 0) {
        const uint32_t from = in[static_cast<size_t>(step.op->view)], to = outs(step)[0];
        if (to && plan_->slots_[to].place == Place::slab) {
          step.view = true;
          plan_->slots_[to].place = Place::view;
          root[to] = root[from];
        }
      }
      // Reading a shape does not keep the bytes: the header outlives them.
      for (size_t i = 0; i < step.node->inputs.size(); ++i)
        if (const uint32_t slot = slot_of(step.node->inputs[i]); slot && !reads_header(step, i)) last[root[slot]] = k;
      ir::for_each_capture(*step.node, [&](ir::ValueId v) { last[root[v + 1]] = k; });
    }
    for (uint32_t s = 1; s < plan_->slots_.size(); ++s)
      if (s <= graph().values().size()) plan_->slots_[s].last = std::max(last[s], plan_->slots_[s].first);
    for (uint32_t k = 0; k < plan_->steps_.size(); ++k) finish_step(k, root, last, is_output);
    // A slab value read in a later segment lives to the end of its own.
    for (SlotPlan& s : plan_->slots_)
      if (s.place == Place::slab)
        s.last = std::min(s.last, plan_->segment_begin_[static_cast<size_t>(s.segment) + 1] - 1);
  }

  void finish_step(uint32_t k, std::span<const uint32_t> root, std::span<const uint32_t> last,
                   const std::vector<bool>& is_output) {
    Step& step = plan_->steps_[k];
    const auto in = ins(step);
    step.last_use.reset(new bool[std::max<size_t>(1, in.size())]());
    std::vector<uint32_t> reads;  // by inputs and bodies
    ir::for_each_read(*step.node, [&](ir::ValueId v) { reads.push_back(root[v + 1]); });
    for (size_t i = 0; i < in.size(); ++i) {
      const Place place = plan_->slots_[in[i]].place;
      const bool of_this_run = (place == Place::held && !known_[in[i]]) || place == Place::input;  // not of the binding
      step.last_use[i] =
          of_this_run && last[in[i]] == k && !is_output[in[i]] && std::count(reads.begin(), reads.end(), in[i]) == 1;
    }
    if (step.view || step.at_bind || step.out_count == 0 || !step.op->inplace || !step.widen.empty() ||
        !step.narrow.empty())
      return;
    const uint32_t out = outs(step)[0];
    if (!out || plan_->slots_[out].place != Place::slab) return;
    for (size_t i = 0; i < in.size() && i < 32; ++i) {
      if (!(step.op->inplace >> i & 1) || !in[i]) continue;
      const uint32_t r = root[in[i]];
      const SlotPlan& source = plan_->slots_[r];
      const bool alone = std::count_if(in.begin(), in.end(), [&](uint32_t s) { return s && root[s] == r; }) == 1;
      if (source.place == Place::slab && source.segment == step.segment && last[r] == k && alone &&
          source.type.dtype == plan_->slots_[out].type.dtype) {
        step.inplace = static_cast<int>(i);
        return;
      }
    }
  }

  PlanOptions options_;
  KeptConstants kept_;
  Counters& counters_;
  std::unique_ptr<Plan> plan_;
  std::vector<int> constant_index_;
  std::vector<bool> known_;
};

Result<std::shared_ptr<const Plan>> Plan::build(std::shared_ptr<const ir::Graph> graph, const PlanOptions& options,
                                                Counters& counters) {
  return PlanBuilder(std::move(graph), options, counters).build();
}

std::vector<const Tensor*> Plan::tensors_of(const Pack& pack) const {
  std::vector<const Tensor*> out;
  for (const int c : pack.constants) out.push_back(c < 0 ? nullptr : &constants_[static_cast<size_t>(c)].tensor);
  return out;
}

PackForm Plan::form_of(const Pack& pack) const {
  const Packing& p = *pack.packing;
  const int main = pack.constants[static_cast<size_t>(p.input)];
  return {p.layout, p.variant ? p.variant(pack.params.get()) : 0, constants_[static_cast<size_t>(main)].tensor.dtype()};
}

PackWeights Plan::weights_of(const Pack& pack) const {
  PackWeights out;
  for (size_t i = 0; i < pack.constants.size(); ++i) {
    const bool part = static_cast<int>(i) == pack.packing->input || (i < 32 && pack.packing->with >> i & 1);
    if (!part) continue;
    const int index = pack.constants[i];
    const PlanConstant* c = index < 0 ? nullptr : &constants_[static_cast<size_t>(index)];
    out.push_back(!c ? Weight() : c->weight ? *c->weight : Weight::from(c->tensor));
  }
  return out;
}

Result<std::shared_ptr<Bytes>> Plan::make_pack(const Pack& pack, const Workers& workers) const {
  TRY_ASSIGN(bytes, allocate_bytes(static_cast<size_t>(pack.bytes)));
  const std::vector<const Tensor*> tensors = tensors_of(pack);
  {
    const StopScope scope(workers.cancel);
    pack.packing->pack({pack.params.get(), tensors, workers.threads}, bytes->data());
  }
  for (const Weight& w : weights_of(pack)) drop_pages(w.range);
  if (workers.cancelled()) return error(Code::canceled, "packing weights was cancelled");
  return std::move(bytes);
}

Result<const void*> Plan::packed(uint32_t index, const Workers& workers) const {
  const Pack& pack = packs_[index];
  Counters moved;
  TRY_ASSIGN(data, pack.packed->get(
                       [&] {
                         for (const Tensor* t : tensors_of(pack)) moved.bytes_packed_in += t ? t->bytes() : 0;
                         return make_pack(pack, workers);
                       },
                       moved));
  std::lock_guard lock(counters_mutex_);
  pack_counters_ += moved;
  return static_cast<const void*>(data);
}

bool Plan::has_packs() const {
  return !packs_.empty() || std::any_of(steps_.begin(), steps_.end(), [](const Step& s) {
    return std::any_of(s.bodies.begin(), s.bodies.end(), [](const auto& b) { return b->has_packs(); });
  });
}

void Plan::hold_packs(std::vector<std::shared_ptr<const void>>& out) const {
  for (const Pack& pack : packs_) {
    out.push_back(pack.packed);
    for (const Weight& w : weights_of(pack)) {
      const BytesPtr& source = w.range.source ? w.range.source : w.decoded.storage();
      // What was borrowed may be other bytes by the time somebody compares addresses.
      if (source && source->origin() != Bytes::Origin::borrowed) out.push_back(source);
    }
  }
  for (const Step& s : steps_)
    for (const auto& b : s.bodies) b->hold_packs(out);
}

void Plan::list_packs(std::vector<PackItem>& out, const Workers& workers) const {
  for (const Pack& pack : packs_) {
    PackItem item;
    if (pack.name) {
      item.key = pack.name->key;
      item.source = pack.name->source;
    } else {
      item.weights = weights_of(pack);
      item.key = pack_key(form_of(pack), item.weights);
    }
    // What no run has packed yet is packed for the file alone.
    item.bytes = [this, &pack, workers]() -> Result<ByteRange> {
      if (const auto there = pack.packed->bytes()) return *there;
      TRY_ASSIGN(made, make_pack(pack, workers));
      const uint64_t size = made->size();
      return ByteRange{std::move(made), 0, size};
    };
    out.push_back(std::move(item));
  }
  for (const Step& s : steps_)
    for (const auto& b : s.bodies) b->list_packs(out, workers);
}

void Plan::add_mapped_files(std::vector<BytesPtr>& out) const {
  const auto add = [&](const BytesPtr& bytes) {
    if (bytes && bytes->origin() == Bytes::Origin::mapped && std::find(out.begin(), out.end(), bytes) == out.end())
      out.push_back(bytes);
  };
  for (const PlanConstant& c : constants_) add(c.tensor.storage());
  for (const Pack& p : packs_)
    if (const auto bytes = p.packed->bytes()) add(bytes->source);
  for (const Step& s : steps_)
    for (const auto& b : s.bodies) b->add_mapped_files(out);
}

std::vector<BytesPtr> Plan::mapped_files() const {
  std::vector<BytesPtr> out;
  add_mapped_files(out);
  return out;
}

Counters Plan::counters() const {
  Counters sum;
  {
    std::lock_guard lock(counters_mutex_);
    sum = pack_counters_;
  }
  for (const Step& s : steps_)
    for (const auto& b : s.bodies) sum += b->counters();
  return sum;
}

}  // namespace tessera
