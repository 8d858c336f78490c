// tessera convert: a model from one file format to another, optimised on the way if wanted.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "formats/onnx/writer.h"
#include "formats/ort/reader.h"
#include "formats/ort/writer.h"
#include "ir/inline.h"
#include "ir/patch.h"
#include "ir/text.h"
#include "ops/signatures.h"
#include "session/save.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestOnnx = INT32_MAX;  // that protobuf reads

struct Options {
  std::string in, out, external;
  int64_t external_least = 1024;
  int optimize = 0;
  bool extensions = false, pack = false;

  std::string external_path() const { return folder_of_new(out) + "/" + external; }
};

// What the new file does not have of the old one, or has otherwise.
using Changes = std::vector<std::string>;

struct Loaded {
  Model model;
  std::shared_ptr<Session> session;  // owns the dimensions that facts of the model speak of
};

bool is_ort(const std::string& path) { return path.ends_with(".ort"); }

// --- types

// Takes over what a session found out about the values of the same graph.
void take_facts(ir::Graph& to, const ir::Graph& from) {
  ir::Annotator annotator(to);
  for (ir::ValueId v = 0; v < to.values().size(); ++v)
    if (const ir::ValueId same = from.find(to.value(v).name); same != ir::kNone)
      if (to.value(v).source != ir::Source::initializer) annotator.set_fact(v, from.value(same).fact);
  // Resolving adds nodes at the end and never moves one.
  for (ir::NodeId i = 0; i < to.nodes().size() && i < from.nodes().size(); ++i)
    ir::for_each_subgraph(to.node(i), [&](const std::string& name, const std::shared_ptr<ir::Graph>& sub) {
      const ir::Attribute* a = from.node(i).op_type == to.node(i).op_type ? from.node(i).find(name) : nullptr;
      const auto* graphs = a ? std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a->value) : nullptr;
      if (graphs && graphs->size() == 1) take_facts(*sub, *graphs->front());
    });
}

// --- signals

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// SIGINT and SIGTERM end the writing with an error, which leaves no temporary file.
class Interruptible {
 public:
  Interruptible() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      before_[i] = std::signal(kSignals[i], [](int) { interrupted = true; });
  }
  ~Interruptible() {
    for (size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  void (*before_[std::size(kSignals)])(int);
};

Status check_not_interrupted() { return interrupted ? error(Code::canceled, "interrupted") : Status{}; }

std::shared_ptr<const std::atomic<bool>> interruption() { return {std::shared_ptr<void>(), &interrupted}; }

// --- weights in a file beside the model

void list_large(const ir::Graph& g, int64_t least, std::vector<const Weight*>& out) {
  const auto consider = [&](const Weight& w) {
    if (!w.sparse && w.dtype != DType::string && w.bytes() >= least) out.push_back(&w);
  };
  for (const ir::ValueInfo& v : g.values())
    if (v.source == ir::Source::initializer) consider(g.weights()[v.weight]);
  for (const ir::Node& n : g.nodes()) {
    if (n.dead) continue;
    for (const ir::Attribute& a : n.attributes)
      if (const auto* weights = std::get_if<std::vector<Weight>>(&a.value))
        for (const Weight& w : *weights) consider(w);
    ir::for_each_subgraph(
        n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { list_large(*sub, least, out); });
  }
}

// Puts large weights into a file of this name, unless it `is_there` already, and says where each of them is.
Status place_large(const Model& model, const Options& o, const std::string& name, bool is_there,
                   onnx::WriteOptions& write) {
  std::vector<const Weight*> large;
  list_large(*model.graph, o.external_least, large);
  std::unique_ptr<AtomicFile> file;
  if (!is_there && !large.empty()) {
    TRY_ASSIGN(created, AtomicFile::create(folder_of_new(o.out) + "/" + name, &interrupted));
    file = std::move(created);
  }
  Progress progress;
  int64_t size = 0;
  for (const Weight* w : large) {
    const int64_t at = round_up(size, kAlignment);
    write.places[w] = {name, static_cast<uint64_t>(at), {}};
    if (file) {
      const char zeros[kAlignment] = {};
      TRY_ASSIGN(t, w->tensor());
      TRY(file->write(zeros, static_cast<size_t>(at - size)));
      TRY(file->write(t.data(), static_cast<size_t>(t.bytes())));
      drop_pages(w->range);
    }
    size = at + w->bytes();
    if (file) progress.say(format("{}: {}", name, human_bytes(size)));
  }
  return file ? file->finish() : Status{};
}

// --- what is lost

struct Tally {
  int64_t constants = 0, unread = 0, unknown_bytes = 0;
};

void count(const ir::Graph& g, Tally& t) {
  t.unknown_bytes += static_cast<int64_t>(g.unknown().size());
  for (ir::ValueId v = 0; v < g.values().size(); ++v) {
    const ir::ValueInfo& info = g.value(v);
    t.unknown_bytes += static_cast<int64_t>(info.unknown.size());
    t.unread += info.source == ir::Source::initializer && !info.is_input && !info.is_output && g.readers(v).empty();
  }
  for (const ir::Node& n : g.nodes()) {
    if (n.dead) continue;
    t.constants += n.op_type == "Constant" && n.domain.empty();
    t.unknown_bytes += static_cast<int64_t>(n.unknown.size());
    for (const ir::Attribute& a : n.attributes) t.unknown_bytes += static_cast<int64_t>(a.unknown.size());
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { count(*sub, t); });
  }
}

void note(Changes& changes, int64_t n, std::string_view what) {
  if (n > 0) changes.push_back(format("{} {}", n, what));
}

// --- optimised graphs

// Rewriting works on the newest form of every operator; it can be written where the model's operator set has it.
Status check_writable(const ir::Graph& g, const Model& model) {
  for (const ir::Node& n : g.nodes()) {
    if (n.dead) continue;
    const spec::Signature* s = spec::find_signature(n.domain, n.op_type, n.version);
    const bool fits = n.version == model.opset(n.domain) && s && static_cast<int>(n.inputs.size()) <= s->max_inputs() &&
                      static_cast<int>(n.outputs.size()) <= s->max_outputs();
    if (!fits)
      return not_implemented(
          "{}: operator set {} cannot express the optimised form; convert the model to a newer operator set first, or "
          "leave out --optimize",
          n.title(), model.opset(n.domain));
    Status status;
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      if (status.ok()) status = check_writable(*sub, model);
    });
    if (!status.ok()) return status;
  }
  return {};
}

Result<Loaded> load_optimized(const Options& o, Changes& changes) {
  SessionOptions options;
  options.optimization_level = o.optimize;
  options.pack_file = "off";
  options.cancel_load = interruption();
  TRY_ASSIGN(session, open_session(o.in, options));
  TRY(check_writable(*session->model().graph, session->model()));
  for (const auto& [rule, times] : session->loaded().rewrites) note(changes, times, "times rewritten by " + rule);
  return Loaded{session->model(), session};
}

Result<Loaded> load_plain(const Options& o, Changes& changes) {
  TRY_ASSIGN(model, load_model_file(o.in));
  if (!is_ort(o.out)) return Loaded{std::move(model), nullptr};
  TRY(ir::inline_functions(model));
  note(changes, static_cast<int64_t>(model.functions.size()), "functions unfolded");
  model.functions.clear();
  SessionOptions options;
  options.optimization_level = 0;
  options.pack_file = "off";
  options.pack_weights = false;
  options.cancel_load = interruption();
  // Without a session there are the types that the file states.
  const auto session = open_session(o.in, options);
  if (session.ok()) take_facts(*model.graph, *(*session)->model().graph);
  return Loaded{std::move(model), session.ok() ? *session : nullptr};
}

// --- writing

Status write_ort(const Model& model, const Options& o, const std::string& external, bool is_there) {
  Progress progress;
  ort::WriteOptions options;
  options.extensions = o.extensions;
  options.external_file = external;
  options.external_least = o.external_least;
  options.external_is_there = is_there;
  options.cancel = is_there ? nullptr : &interrupted;
  options.progress = [&](int64_t done, int64_t total) {
    progress.say(format("{}: {} of {}", o.out, human_bytes(done), human_bytes(total)));
  };
  return ort::save_model(model, o.out, options);
}

Status write_onnx(const Model& model, const Options& o, const std::string& external, bool is_there) {
  onnx::WriteOptions write;
  write.keep_references = false;
  if (!external.empty()) TRY(place_large(model, o, external, is_there, write));
  TRY_ASSIGN(text, onnx::write_model(model, write));
  if (static_cast<int64_t>(text.size()) > kLargestOnnx)
    return error(Code::fail, "{} do not fit into an .onnx file; --external FILE puts weights beside it",
                 human_bytes(static_cast<int64_t>(text.size())));
  TRY_ASSIGN(file, AtomicFile::create(o.out, is_there ? nullptr : &interrupted));
  TRY(file->write(text.data(), text.size()));
  return file->finish();
}

// With data that `is_there` the rest is short and not to be interrupted.
Status write_model(const Model& model, const Options& o, const std::string& external, bool is_there) {
  if (!is_there) TRY(check_not_interrupted());
  if (is_text_model(o.out)) return write_file(o.out, to_text(model));
  const auto remove_data = [&] {
    std::error_code ignored;
    if (!external.empty() && !is_there) fs::remove(folder_of_new(o.out) + "/" + external, ignored);
  };
  Status s = is_ort(o.out) ? write_ort(model, o, external, is_there) : write_onnx(model, o, external, is_there);
  if (!s.ok()) remove_data();
  return s;
}

// Gives a file a second name, whatever had that name.
Status also_named(const std::string& from, const std::string& to) {
  const std::string between = from + ".link";
  std::error_code e;
  fs::create_hard_link(from, between, e);
  if (!e) fs::rename(between, to, e);
  return e ? error(Code::fail, "cannot name {}: {}", quote(to), e.message()) : Status{};
}

// At every moment OUT is a whole model, the old one or the new one. Where a file has the name of the new data already,
// OUT may be what reads it: the new data has another name until a new OUT has taken the old one's place.
Status write_files(const Model& model, const Options& o) {
  std::error_code ignored;
  if (o.external.empty() || !fs::exists(o.external_path(), ignored)) return write_model(model, o, o.external, false);
  const std::string other = format("{}.new-{}", o.external, static_cast<int64_t>(getpid()));
  const std::string path = folder_of_new(o.out) + "/" + other;
  TRY(write_model(model, o, other, false));
  if (!fs::exists(path, ignored)) return {};  // no weight is large
  Status s = also_named(path, o.external_path());
  if (s.ok()) s = write_model(model, o, o.external, true);
  if (!s.ok()) return std::move(s).in(format("{} is written, its weights are in {}", quote(o.out), quote(other)));
  fs::remove(path, ignored);
  return {};
}

Status write_packs(const Options& o) {
  SessionOptions options;
  options.pack_file = "off";
  options.cancel_load = interruption();
  TRY_ASSIGN(session, open_session(o.out, options));
  TRY_ASSIGN(saved, save_packs(*session, o.out + ".pack", true, &interrupted));
  std::printf("%s.pack: %lld packed weights, %s\n", o.out.c_str(), static_cast<long long>(saved.packs),
              human_bytes(saved.bytes).c_str());
  return {};
}

// --- the report

void list_losses(const Model& model, Changes& changes) {
  Tally t;
  t.unknown_bytes = static_cast<int64_t>(model.unknown.size());
  count(*model.graph, t);
  note(changes, t.constants, "Constant nodes became initializers");
  note(changes, t.unread, "initializers that nobody reads were left out");
  note(changes, t.unknown_bytes, "bytes of descriptions and unknown fields were left out");
}

using Census = std::map<std::string, int64_t>;  // nodes by operator

void take_census(const ir::Graph& g, Census& out) {
  for (const ir::Node& n : g.nodes()) {
    if (n.dead) continue;
    ++out[n.domain.empty() ? n.op_type : n.domain + "." + n.op_type];
    ir::for_each_subgraph(n,
                          [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { take_census(*sub, out); });
  }
}

int64_t bytes_of(const std::string& path) {
  std::error_code ignored;
  return static_cast<int64_t>(fs::file_size(path, ignored));
}

Status report(const Model& before, const Options& o, const Changes& changes) {
  TRY_ASSIGN(after, load_model_file(o.out));  // what was written can be read
  Census counts[2];
  take_census(*before.graph, counts[0]);
  take_census(*after.graph, counts[1]);
  std::printf("%s: %zu nodes (of %zu), %s\n", o.out.c_str(), after.graph->nodes().size(), before.graph->nodes().size(),
              human_bytes(bytes_of(o.out)).c_str());
  if (!o.external.empty() && fs::exists(o.external_path()))
    std::printf("  %s: %s of weights\n", o.external.c_str(), human_bytes(bytes_of(o.external_path())).c_str());
  for (const std::string& c : changes) std::printf("  %s\n", c.c_str());
  for (const auto& [op, n] : counts[0]) counts[1].try_emplace(op, 0);
  for (const auto& [op, n] : counts[1])
    if (const int64_t old = counts[0][op]; old != n && op != "Constant")
      std::printf("  %s: %lld nodes, were %lld\n", op.c_str(), static_cast<long long>(n), static_cast<long long>(old));
  return {};
}

// --- the command

// The new data must not take the place of what the model is read from.
Status check_external(const Options& o) {
  if (o.external.empty()) return {};
  if (o.external.find('/') != o.external.npos) return invalid("--external {} must be a plain file name", o.external);
  if (is_text_model(o.out)) return invalid("ONNX's text holds its weights itself; leave out --external");
  if (fs::path(o.out).filename() == o.external) return invalid("--external {} is the model itself", o.external);
  TRY_ASSIGN(model, load_model_file(o.in));
  std::vector<const Weight*> all;
  list_large(*model.graph, 0, all);
  std::error_code not_there;
  for (const Weight* w : all)
    if (!w->location.empty() && fs::equivalent(folder_of(o.in) + "/" + w->location, o.external_path(), not_there))
      return invalid("{} is read by {}; give the new weights another name", quote(o.external), quote(o.in));
  return {};
}

Status convert(const Options& o) {
  if (!is_ort(o.out) && !o.out.ends_with(".onnx") && !is_text_model(o.out))
    return invalid("{} tells no format; give a name that ends in .onnx, .ort or .onnxtxt", quote(o.out));
  TRY(check_output(o.in, o.out));
  TRY(check_external(o));
  const Interruptible during;
  TRY_ASSIGN(before, load_model_file(o.in));
  Changes changes;
  if (is_ort(o.in)) {
    TRY_ASSIGN(bytes, map_file(o.in));
    note(changes, ort::saved_optimizations(*bytes), "saved runtime optimisations were left out");
  }
  TRY_ASSIGN(loaded, o.optimize > 0 ? load_optimized(o, changes) : load_plain(o, changes));
  if (is_ort(o.out)) list_losses(loaded.model, changes);
  TRY(write_files(loaded.model, o));
  TRY(report(before, o, changes));
  if (!o.pack) return {};
  Status packed = write_packs(o);
  return packed.ok() ? std::move(packed) : std::move(packed).in(format("{} is written, packing it failed", o.out));
}

int run(const Options& o) {
  const Status s = convert(o);
  return s.ok() ? kOk : complain(s.message(), kFailed);
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("convert", "Write a model in another format: .onnx, .ort or ONNX's text");
  cmd->footer(
      "The format of OUT follows from its name. Weights are taken into the file unless --external says otherwise.\n"
      "Files appear when they are complete, the data before the model; what fails or is interrupted leaves the old "
      "ones.\n"
      "Examples:\n  tessera convert model.onnx model.ort\n  tessera convert --optimize 99 model.onnx small.onnx\n"
      "  tessera convert --external weights.bin model.ort model.onnx\n"
      "  tessera convert --extensions --pack int4.onnx int4.ort\n");
  cmd->add_option("in", o->in, "Model to read")->required();
  cmd->add_option("out", o->out, "Model to write: .onnx, .ort or .onnxtxt")->required();
  cmd->add_option("--optimize", o->optimize, "Rewrite the graph, up to this level (default 0: as it is)")
      ->check(CLI::Range(0, 99));
  cmd->add_option("--external", o->external, "Put large weights into this file beside OUT");
  cmd->add_option("--external-least", o->external_least, "The least bytes of such a weight")
      ->check(CLI::Range(1, 1 << 30));
  cmd->add_flag("--extensions", o->extensions,
                "Allow in .ort what ONNX Runtime cannot read: int4 and other new types, external data, 2 GiB and more");
  cmd->add_flag("--pack", o->pack, "Also write OUT.pack: weights as the kernels want them");
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tessera::cli
