#include "session/session.h"

#include <algorithm>
#include <optional>

#include "base/attempt.h"

namespace tessera {
namespace {

// Memory can run out anywhere below; it comes back as a status like everything else.
template <class F>
auto guarded(F&& f) -> decltype(f()) {
  std::optional<decltype(f())> out;
  attempt([&] { out.emplace(f()); },
          [&](const char* what) { out.emplace(Status(Code::fail, what ? what : "out of memory")); });
  return std::move(*out);
}

using Packs = std::shared_ptr<const PackFile>;

constexpr size_t kLargeModel = 4 << 20;  // bytes from which on the system's reading ahead is felt

Result<Packs> read_packs(BytesPtr bytes, const SessionOptions& options) {
  if (options.copy_mapped_files) {
    TRY_ASSIGN(own, detached(bytes));
    bytes = std::move(own);
  }
  TRY_ASSIGN(packs, PackFile::read(std::move(bytes)));
  if (options.pack_verify) TRY(packs->verify());
  return packs;
}

// The pack file that the options name: handed over like external data, or beside the model. Null where there is none,
// or none that can be used.
Result<Packs> open_packs(const Folder* folder, const std::string& model, const SessionOptions& options) {
  const bool automatic = options.pack_file == "auto";
  if (options.pack_file == "off" || !options.pack_weights || (automatic && !folder)) return Packs();
  const std::string name = automatic ? model + ".pack" : options.pack_file;
  const auto read = [&]() -> Result<Packs> {
    for (const auto& [file, bytes] : options.external_files)
      if (plain_name(file) == plain_name(name)) return read_packs(bytes, options);
    if (!folder) return error(Code::no_such_file, "a model loaded from memory has no folder");
    TRY_ASSIGN(bytes, folder->map(name, options.strict_external_data));
    return read_packs(std::move(bytes), options);
  };
  Result<Packs> packs = read();
  if (packs.ok() || !options.pack_strict) return packs.ok() ? *packs : nullptr;
  return packs.take_status().in(quote(name));
}

Status check_cancelled(const SessionOptions& options) {
  if (options.cancel_load && *options.cancel_load) return error(Code::canceled, "loading was cancelled");
  return {};
}

// The name of a model among the cached packs: what it is, or where it is and since when.
std::string cache_name(const BytesPtr& bytes, const std::string& path) {
  Digest digest = digest_of(bytes->data(), path.empty() ? bytes->size() : 0);
  if (!path.empty()) {
    const std::string text = format("{};{};{}", path, bytes->size(), bytes->written_at());
    digest = digest_of(text.data(), text.size());
  }
  return digest.str() + ".pack";
}

}  // namespace

Result<std::shared_ptr<Session>> Session::open(const std::string& path, const SessionOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Session>> {
    TRY_ASSIGN(mapped, map_file(path));
    Source source;
    source.bytes = std::move(mapped);
    if (options.copy_mapped_files) {
      TRY_ASSIGN(own, detached(source.bytes));
      source.bytes = std::move(own);
    }
    source.folder = folder_of_new(path);
    source.home = folder_of(path);
    source.name = path.substr(path.rfind('/') + 1);
    Result<std::shared_ptr<Session>> session = create(source, options);
    if (!session.ok()) return session.take_status().in(quote(path));
    return session;
  });
}

Result<std::shared_ptr<Session>> Session::from_bytes(BytesPtr bytes, const SessionOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Session>> { return create({std::move(bytes), {}, {}, {}}, options); });
}

Result<ExternalData> Session::external_data(const SessionOptions& options, std::shared_ptr<Folder> folder) {
  // Where files are that a model from memory, or from another folder, names.
  const auto elsewhere = options.config.find("session.model_external_initializers_file_folder_path");
  if (elsewhere != options.config.end() && !elsewhere->second.empty()) {
    TRY_ASSIGN(other, Folder::open(elsewhere->second));
    folder = std::move(other);
  }
  ExternalData external(std::move(folder));
  for (const auto& [name, file] : options.external_files) TRY(external.add_buffer(name, file));
  for (const auto& [name, reader] : options.external_readers) TRY(external.add_reader(name, reader.size, reader.read));
  for (const auto& [name, given] : options.given_initializers) external.give(name, given.tensor, given.required);
  if (options.copy_mapped_files) external.copy_files();
  if (options.strict_external_data) {
    external.forbid_files();
    external.strict_links();
  }
  return external;
}

Result<std::shared_ptr<Session>> Session::create(const Source& source, const SessionOptions& options) {
  TRY(check_cancelled(options));
  std::shared_ptr<Folder> folder;
  if (!source.folder.empty()) {
    TRY_ASSIGN(opened, Folder::open(source.folder, source.home));
    folder = std::move(opened);
  }
  TRY_ASSIGN(packs, open_packs(folder.get(), source.name, options));
  TRY_ASSIGN(external, external_data(options, folder));
  std::shared_ptr<Session> s(new Session);
  s->options_ = options;
  s->threads_ = options.threads > 0 ? options.threads : usable_processors();
  TRY(s->load(source, external, packs, options));
  TRY(check_cancelled(options));
  TRY(save_as_asked(source.bytes, external, source.folder, options, s->warnings_));
  s->options_.external_files.clear();  // weights hold what they need of them
  s->options_.external_readers.clear();
  s->options_.given_initializers.clear();
  s->files_ = s->loaded_.plan->mapped_files();
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

Status Session::load(const Source& source, ExternalData& external, Packs packs, const SessionOptions& options) {
  const bool caches = !packs && !options.pack_cache_dir.empty() && options.pack_weights;
  const std::string cache =
      options.pack_cache_dir + "/" +
      (caches ? cache_name(source.bytes, source.folder.empty() ? "" : source.home + "/" + source.name) : std::string());
  const auto open_cache = [&] {
    Result<std::shared_ptr<Bytes>> bytes = map_file(cache);
    Result<Packs> read = bytes.ok() ? read_packs(std::move(*bytes), options) : bytes.take_status();
    packs = read.ok() ? *read : nullptr;
  };
  if (caches) open_cache();
  // With packs at hand, most of the weights inside a model are never read.
  const ByteRange whole{source.bytes, 0, source.bytes->size()};
  const bool reads_little = packs && source.bytes->size() >= kLargeModel;
  if (reads_little) expect(whole, Reading::alone);
  Result<LoadedModel> read = load_model(source.bytes, external, packs.get(), options);
  if (reads_little) expect(whole, Reading::usual);
  TRY_ASSIGN(loaded, std::move(read));
  loaded_ = std::move(loaded);
  const Counters c = loaded_.plan->counters();
  if (options.pack_strict && !caches && c.packs_stale > 0)
    return error(Code::fail,
                 "{} packed weights are not of this model's weights; make the pack file again with `tessera pack`",
                 c.packs_stale);
  if (!caches || !(packs ? c.packs_stale > 0 : loaded_.plan->has_packs())) return {};
  if (Status s = write_packs_of(*loaded_.plan, cache, {threads_, options.cancel_load.get()}); !s.ok()) {
    TRY(check_cancelled(options));
    warnings_.push_back(format("packed weights are not cached: {}", s.message()));
    return {};
  }
  open_cache();
  if (!packs) return {};
  loaded_ = {};  // what was packed only for this is gone before it is mapped
  TRY_ASSIGN(again, load_model(source.bytes, external, packs.get(), options));
  loaded_ = std::move(again);
  return {};
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
