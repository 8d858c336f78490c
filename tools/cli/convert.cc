// tessera convert: a model from one file format to another, optimised on the way if wanted.
#include <filesystem>

#include "base/file.h"
#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "formats/onnx/writer.h"
#include "formats/ort/writer.h"
#include "ir/inline.h"
#include "ir/patch.h"
#include "ir/text.h"
#include "ops/signatures.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestOnnx = INT32_MAX;  // that protobuf reads

struct Options {
  std::string in, out, external;
  int64_t external_least = 1024;
  int optimize = 0;
  bool extensions = false;
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

// --- weights in other places

// Where weights go: into the model, or one after the other into a file beside it.
class WeightMover {
 public:
  WeightMover(const Options& o, std::string folder) : o_(o), folder_(std::move(folder)) {}

  Status move(Weight& w) {
    if (w.sparse) return {};
    w.location.clear();
    w.checksum.clear();
    if (o_.external.empty() || w.dtype == DType::string || w.bytes() < o_.external_least) {
      inside_ += w.bytes();
      return {};
    }
    if (!file_) {
      TRY_ASSIGN(file, AtomicFile::create(folder_ + o_.external));
      file_ = std::move(file);
    }
    TRY_ASSIGN(t, w.tensor());
    const char zeros[kAlignment] = {};
    const int64_t at = round_up(size_, kAlignment);
    TRY(file_->write(zeros, static_cast<size_t>(at - size_)));
    TRY(file_->write(t.data(), static_cast<size_t>(t.bytes())));
    drop_pages(w.range);
    w.location = o_.external;
    w.location_offset = static_cast<uint64_t>(at);
    size_ = at + t.bytes();
    progress_.say(format("{}: {}", o_.external, human_bytes(size_)));
    return {};
  }
  Status finish() {
    if (inside_ > kLargestOnnx)
      return error(Code::fail, "{} of weights do not fit into an .onnx file; --external FILE puts them beside it",
                   human_bytes(inside_));
    return file_ ? file_->finish() : Status{};
  }

 private:
  const Options& o_;
  std::string folder_;
  std::unique_ptr<AtomicFile> file_;
  int64_t size_ = 0, inside_ = 0;
  Progress progress_;
};

Result<std::shared_ptr<ir::Graph>> with_moved_weights(const ir::Graph& g, WeightMover& mover);

Status move_attribute(ir::Attribute& a, WeightMover& mover) {
  if (auto* weights = std::get_if<std::vector<Weight>>(&a.value))
    for (Weight& w : *weights) TRY(mover.move(w));
  if (auto* graphs = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a.value))
    for (auto& sub : *graphs) {
      TRY_ASSIGN(moved, with_moved_weights(*sub, mover));
      sub = std::move(moved);
    }
  return {};
}

// A copy of the graph; what it captures is not bound yet.
Result<std::shared_ptr<ir::Graph>> with_moved_weights(const ir::Graph& g, WeightMover& mover) {
  ir::GraphBuilder builder(g.dims_ptr());
  for (const ir::ValueInfo& v : g.values()) {
    if (v.source != ir::Source::initializer) continue;
    Weight w = g.weights()[v.weight];
    TRY(mover.move(w));
    TRY(builder.initializer(v.name, std::move(w)));
  }
  for (const ir::ValueId id : g.inputs()) TRY(builder.input(g.value(id).name, g.value(id).fact, g.value(id).unknown));
  for (const ir::ValueId id : g.outputs()) builder.output(g.value(id).name, g.value(id).fact, g.value(id).unknown);
  TRY_ASSIGN(order, ir::topological_order(g));
  for (const ir::NodeId id : order) {
    ir::Node n = g.node(id);
    std::vector<std::string_view> names[2];
    for (const bool out : {false, true})
      for (const ir::ValueId v : out ? n.outputs : n.inputs)
        names[out].push_back(v == ir::kNone ? std::string_view() : g.value(v).name);
    n.inputs.clear();
    n.outputs.clear();
    for (ir::Attribute& a : n.attributes) TRY(move_attribute(a, mover));
    TRY(builder.node(std::move(n), names[0], names[1]));
  }
  for (const ir::ValueInfo& v : g.values())
    if (v.source == ir::Source::node) builder.value_info(v.name, v.fact, v.unknown);
  builder.describe(g.name(), g.doc(), g.unknown());
  return builder.finish();
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
  // Without a session there are the types that the file states.
  const auto session = open_session(o.in, options);
  if (session.ok()) take_facts(*model.graph, *(*session)->model().graph);
  return Loaded{std::move(model), session.ok() ? *session : nullptr};
}

// --- writing

Status write_ort(const Model& model, const Options& o, Changes& changes) {
  Tally t;
  t.unknown_bytes = static_cast<int64_t>(model.unknown.size());
  count(*model.graph, t);
  note(changes, t.constants, "Constant nodes became initializers");
  note(changes, t.unread, "initializers that nobody reads were left out");
  note(changes, t.unknown_bytes, "bytes of descriptions and unknown fields were left out");
  Progress progress;
  ort::WriteOptions options;
  options.extensions = o.extensions;
  options.external_file = o.external;
  options.external_least = o.external_least;
  options.progress = [&](int64_t done, int64_t total) {
    progress.say(format("{}: {} of {}", o.out, human_bytes(done), human_bytes(total)));
  };
  return ort::save_model(model, o.out, options);
}

Status write_onnx(Model model, const Options& o) {
  const size_t slash = o.out.rfind('/');
  WeightMover mover(o, slash == o.out.npos ? std::string() : o.out.substr(0, slash + 1));
  TRY_ASSIGN(graph, with_moved_weights(*model.graph, mover));
  TRY(ir::GraphBuilder::bind_scopes(*graph));
  model.graph = std::move(graph);
  TRY(mover.finish());
  if (!is_text_model(o.out)) return onnx::save_model(model, o.out);
  return write_file(o.out, to_text(model));
}

Status convert(const Options& o) {
  if (o.external.find('/') != o.external.npos) return invalid("--external {} must be a plain file name", o.external);
  if (!is_ort(o.out) && !o.out.ends_with(".onnx") && !is_text_model(o.out))
    return invalid("{} tells no format; give a name that ends in .onnx, .ort or .onnxtxt", quote(o.out));
  TRY(check_output(o.in, o.out));
  Changes changes;
  TRY_ASSIGN(loaded, o.optimize > 0 ? load_optimized(o, changes) : load_plain(o, changes));
  TRY(is_ort(o.out) ? write_ort(loaded.model, o, changes) : write_onnx(loaded.model, o));
  TRY_ASSIGN(again, load_model_file(o.out));  // what was written can be read
  std::error_code ignored;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(o.out, ignored));
  std::printf("%s: %zu nodes, %s\n", o.out.c_str(), again.graph->nodes().size(), human_bytes(size).c_str());
  for (const std::string& c : changes) std::printf("  %s\n", c.c_str());
  return {};
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
      "Examples:\n  tessera convert model.onnx model.ort\n  tessera convert --optimize 99 model.onnx small.onnx\n"
      "  tessera convert --external weights.bin model.ort model.onnx\n");
  cmd->add_option("in", o->in, "Model to read")->required();
  cmd->add_option("out", o->out, "Model to write: .onnx, .ort or .onnxtxt")->required();
  cmd->add_option("--optimize", o->optimize, "Rewrite the graph, up to this level (default 0: as it is)")
      ->check(CLI::Range(0, 99));
  cmd->add_option("--external", o->external, "Put large weights into this file beside OUT");
  cmd->add_option("--external-least", o->external_least, "The least bytes of such a weight")
      ->check(CLI::Range(1, 1 << 30));
  cmd->add_flag("--extensions", o->extensions,
                "Allow in .ort what ONNX Runtime cannot read: int4 and other new types, external data, 2 GiB and more");
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tessera::cli
