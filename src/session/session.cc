#include "session/session.h"

#include <algorithm>
#include <new>

namespace tessera {
namespace {

// Memory can run out anywhere below; it comes back as a status like everything else.
template <class F>
auto guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return error(Code::fail, "out of memory");
  }
}

// The pack file that the options name. Null where there is none, or none that can be used.
Result<std::shared_ptr<const PackFile>> open_packs(const Folder& folder, const std::string& model,
                                                   const SessionOptions& options) {
  if (options.pack_file == "off") return std::shared_ptr<const PackFile>();
  const std::string name = options.pack_file == "auto" ? model + ".pack" : options.pack_file;
  const auto read = [&]() -> Result<std::shared_ptr<const PackFile>> {
    TRY_ASSIGN(bytes, folder.map(name));
    TRY_ASSIGN(packs, PackFile::read(std::move(bytes)));
    if (options.pack_verify) TRY(packs->verify());
    return packs;
  };
  Result<std::shared_ptr<const PackFile>> packs = read();
  if (packs.ok() || !options.pack_strict) return packs.ok() ? *packs : nullptr;
  return packs.take_status().in(quote(name));
}

}  // namespace

Result<std::shared_ptr<Session>> Session::open(const std::string& path, const SessionOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Session>> {
    TRY_ASSIGN(bytes, map_file(path));
    TRY_ASSIGN(folder, Folder::open(folder_of(path)));
    TRY_ASSIGN(packs, open_packs(*folder, path.substr(path.rfind('/') + 1), options));
    Result<std::shared_ptr<Session>> session = create(std::move(bytes), ExternalData(folder), packs.get(), options);
    if (!session.ok()) return session.take_status().in(quote(path));
    return session;
  });
}

Result<std::shared_ptr<Session>> Session::from_bytes(BytesPtr bytes, const SessionOptions& options) {
  return guarded([&] { return create(std::move(bytes), ExternalData(), nullptr, options); });
}

Result<std::shared_ptr<Session>> Session::create(BytesPtr bytes, ExternalData external, const PackFile* packs,
                                                 const SessionOptions& options) {
  for (const auto& [name, file] : options.external_files) external.add_buffer(name, file);
  if (options.strict_external_data) {
    external.forbid_files();
    external.strict_links();
  }
  std::shared_ptr<Session> s(new Session);
  s->options_ = options;
  TRY_ASSIGN(loaded, load_model(std::move(bytes), external, packs, options));
  s->loaded_ = std::move(loaded);
  if (const Counters c = s->loaded_.plan->counters(); options.pack_strict && c.packs_stale > 0)
    return error(Code::fail,
                 "{} packed weights are not of this model's weights; make the pack file again with `tessera pack`",
                 c.packs_stale);
  s->options_.external_files.clear();  // weights hold what they need of them
  s->files_ = s->loaded_.plan->mapped_files();
  s->threads_ = options.threads > 0 ? options.threads : usable_processors();
  const ir::Graph& graph = *s->loaded_.model.graph;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::ValueInfo& v = graph.value(graph.inputs()[i]);
    const bool optional = v.source == ir::Source::initializer;
    (optional ? s->overridable_ : s->inputs_).push_back({v.name, v.fact});
    (optional ? s->overridable_slot_ : s->input_slot_).push_back(i);
  }
  for (const ir::ValueId id : graph.outputs()) s->outputs_.push_back({graph.value(id).name, graph.value(id).fact});
  return s;
}

Status Session::check_input(const ValueSpec& spec, const Value& value) const {
  const Fact& want = spec.fact;
  const auto refuse = [&] {
    return invalid("input {} is {}, wanted {}", quote(spec.name), value.describe(), want.str());
  };
  if (want.kind == Kind::optional || want.kind == Kind::unknown) return {};
  if (want.kind == Kind::sequence) return value.sequence() ? Status{} : refuse();
  if (want.kind == Kind::map) return value.map() ? Status{} : refuse();
  if (want.kind != Kind::tensor) return {};
  const Tensor* t = value.tensor();
  if (!t || t->dtype() != want.dtype) return refuse();
  if (!want.shape) return {};
  if (static_cast<int>(want.shape->size()) != t->shape().rank()) return refuse();
  for (int i = 0; i < t->shape().rank(); ++i) {
    const Dim& d = (*want.shape)[static_cast<size_t>(i)];
    if (d.known() && d.value() != t->shape()[i]) return refuse();
  }
  return {};
}

std::unique_ptr<Context> Session::acquire(std::span<const Value> inputs) {
  {
    std::lock_guard lock(mutex_);
    for (size_t i = idle_.size(); i-- > 0;)
      if (idle_[i]->bound_for(inputs) || (i == 0 && idle_.size() >= kMostIdle)) {
        std::unique_ptr<Context> context = std::move(idle_[i]);
        idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
        return context;
      }
  }
  return std::make_unique<Context>(loaded_.plan, slabs_);
}

void Session::release(std::unique_ptr<Context> context) {
  std::lock_guard lock(mutex_);
  last_stats_ = context->stats();
  if (idle_.size() >= kMostIdle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(context));
}

Status Session::run_plan(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions* options,
                         Profile* profile) {
  for (const BytesPtr& file : files_) TRY(check_unchanged(*file));
  std::unique_ptr<Context> context = acquire(inputs);
  RunScope scope;
  scope.threads = threads_;
  scope.target = options_.target;
  scope.max_tensor_bytes = options_.max_tensor_bytes;
  scope.max_run_bytes = options_.max_run_bytes;
  scope.cancel = options ? &options->cancel : nullptr;
  scope.seed = (runs_.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15u;
  Status status = context->run(inputs, outputs, scope, profile);
  release(std::move(context));
  return status;
}

Status Session::run(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions* options,
                    Profile* profile) {
  return guarded([&]() -> Status {
    if (inputs.size() != inputs_.size())
      return invalid("the model has {} inputs, {} were given", inputs_.size(), inputs.size());
    if (outputs.size() != outputs_.size())
      return invalid("the model has {} outputs, room for {} was given", outputs_.size(), outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) TRY(check_input(inputs_[i], inputs[i]));
    if (overridable_.empty()) return run_plan(inputs, outputs, options, profile);
    std::vector<Value> all(inputs_.size() + overridable_.size());
    for (size_t i = 0; i < inputs.size(); ++i) all[input_slot_[i]] = inputs[i];
    return run_plan(all, outputs, options, profile);
  });
}

Status Session::run_named(std::span<const std::string_view> input_names, std::span<const Value> inputs,
                          std::span<const std::string_view> output_names, std::span<Value> outputs,
                          const RunOptions* options, Profile* profile) {
  return guarded([&]() -> Status {
    std::vector<Value> all(inputs_.size() + overridable_.size()), out(outputs_.size());
    std::vector<bool> given(all.size(), false);
    const auto place = [&](std::string_view name, const Value& value) -> Status {
      for (const auto* specs : {&inputs_, &overridable_})
        for (size_t i = 0; i < specs->size(); ++i)
          if ((*specs)[i].name == name) {
            const size_t slot = (specs == &inputs_ ? input_slot_ : overridable_slot_)[i];
            if (given[slot]) return invalid("input {} is given twice", quote(name));
            given[slot] = true;
            all[slot] = value;
            return check_input((*specs)[i], value);
          }
      std::string names;
      for (const ValueSpec& s : inputs_) names += (names.empty() ? "" : ", ") + quote(s.name);
      return invalid("the model has no input {}; it has {}", quote(name), names);
    };
    for (size_t i = 0; i < input_names.size(); ++i) TRY(place(input_names[i], inputs[i]));
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!given[input_slot_[i]] && inputs_[i].fact.kind != Kind::optional)
        return invalid("input {} ({}) is missing", quote(inputs_[i].name), inputs_[i].fact.str());
    std::vector<size_t> index;
    for (const std::string_view name : output_names) {
      const auto it =
          std::find_if(outputs_.begin(), outputs_.end(), [&](const ValueSpec& s) { return s.name == name; });
      if (it == outputs_.end()) return invalid("the model has no output {}", quote(name));
      index.push_back(static_cast<size_t>(it - outputs_.begin()));
      out[index.back()] = outputs[index.size() - 1];
    }
    TRY(run_plan(all, out, options, profile));
    for (size_t i = 0; i < index.size(); ++i) outputs[i] = out[index[i]];
    return {};
  });
}

MemoryStats Session::memory() const {
  MemoryStats m;
  m.counters = loaded_.counters;
  m.counters += loaded_.plan->counters();
  for (const auto& [slot, tensor, weight] : loaded_.plan->constants()) m.weight_bytes += tensor.bytes();
  m.idle_bytes = slabs_.idle_bytes();
  std::lock_guard lock(mutex_);
  m.planned_peak = last_stats_.planned_peak;
  m.slab_bytes = last_stats_.slab_bytes;
  return m;
}

}  // namespace tessera
