#include "random_check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/compare.h"
#include "common/show.h"
#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/session.h"

namespace tessera::testing {
namespace {

// ------------------------------------------------------------------------------------------------------- facts

// Numbers for symbols: those of the inputs' dimensions, and for others the first that is seen.
class Symbols {
 public:
  explicit Symbols(const RandomGraph& graph, const std::vector<Value>& inputs) {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      for (size_t k = 0; k < graph.inputs[i].symbols.size(); ++k)
        if (!graph.inputs[i].symbols[k].empty())
          numbers_[graph.inputs[i].symbols[k]] = inputs[i].tensor()->shape()[static_cast<int>(k)];
    given_ = numbers_;
  }
  // Without those that were seen.
  Symbols of_inputs() const {
    Symbols out = *this;
    out.numbers_ = given_;
    return out;
  }
  // False only if the dimension is certainly another number.
  bool agree(const Dim& d, int64_t actual) {
    if (d.known()) return d.value() == actual;
    const auto& terms = d.expr()->terms;
    if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1 &&
        terms[0].atoms[0]->kind == DimAtom::Kind::symbol)
      numbers_.emplace(terms[0].atoms[0]->name, actual);
    bool complete = true;
    const int64_t value = d.evaluate([&](std::string_view symbol) {
      const auto it = numbers_.find(symbol);
      complete = complete && it != numbers_.end();
      return it == numbers_.end() ? 1 : it->second;
    });
    return !complete || value == actual;
  }

 private:
  std::map<std::string, int64_t, std::less<>> numbers_, given_;
};

bool agrees(const Fact& fact, const Value& value, Symbols& symbols) {
  if (fact.kind == Kind::unknown || fact.kind == Kind::optional) return true;
  const Tensor* t = value.tensor();
  if (const Sequence* s = value.sequence()) {
    if (fact.kind != Kind::sequence) return false;
    for (const Value& item : s->items) {
      Symbols own = symbols.of_inputs();  // a symbol of the element's type is another number for every element
      if (fact.element && !agrees(*fact.element, item, own)) return false;
    }
    return true;
  }
  if (!t) return fact.kind != Kind::tensor;
  if (!fact.is_tensor() || (fact.dtype != DType::undefined && fact.dtype != t->dtype())) return false;
  if (fact.shape) {
    if (fact.rank() != t->shape().rank()) return false;
    for (int i = 0; i < fact.rank(); ++i)
      if (!symbols.agree((*fact.shape)[static_cast<size_t>(i)], t->shape()[i])) return false;
  }
  if (fact.content && t->count() > 0) {
    std::vector<int64_t> numbers(static_cast<size_t>(t->count()));
    decode(t->dtype(), t->data(), 0, t->count(), numbers.data());
    if (numbers.size() != fact.content->size()) return false;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!symbols.agree((*fact.content)[i], numbers[i])) return false;
  }
  return true;
}

std::string content_text(const Fact& fact) {
  if (!fact.content) return "";
  std::string out = " with content";
  for (const Dim& d : *fact.content) out += " " + d.str();
  return out;
}

std::string check_facts(const ir::Graph& graph, const Scope& scope, Symbols symbols) {
  for (const ir::ValueInfo& v : graph.values()) {
    const auto it = scope.find(v.name);
    if (it == scope.end() || it->second.empty()) continue;
    if (!agrees(v.fact, it->second, symbols))
      return format("facts: {} is inferred as {}{}, and is {} {}", v.name, v.fact.str(), content_text(v.fact),
                    it->second.describe(), cli::first_values(it->second));
  }
  return "";
}

// ------------------------------------------------------------------------------------------------------- runs

std::vector<Value> inputs_of(const RandomGraph& graph) {
  std::vector<Value> out;
  for (const RandomInput& i : graph.inputs) out.push_back(i.value);
  return out;
}

// Rewrites that keep every bit. Others may round differently.
bool exact(const Session& session) {
  const auto& rewrites = session.loaded().rewrites;
  return std::all_of(rewrites.begin(), rewrites.end(), [](const auto& r) {
    return r.second == 0 || r.first == "drop_identity" || r.first == "drop_dropout";
  });
}

// A planned run compared with the interpretation, which may have been refused.
std::string compare_run(Session& session, const RandomGraph& graph, const std::vector<Value>& inputs,
                        const Result<Scope>& want, std::string_view how) {
  std::vector<Value> got(session.outputs().size());
  const Status s = session.run(inputs, got);
  if (want.status().code() == Code::not_implemented) return "";
  if (!want.ok()) return s.ok() ? format("accepted: {}: what alone is refused: {}", how, want.status().message()) : "";
  if (!s.ok()) return format("run: {}: {}", how, s.message());
  for (size_t i = 0; i < got.size(); ++i) {
    const Value& wanted = want->at(graph.outputs[i]);
    if (same_bits(got[i], wanted)) continue;
    if (exact(session) || !cli::difference(got[i], wanted, {1e-3, 1e-4}).empty())
      return format("bits: {}: output {} is {} {}, alone {} {}", how, graph.outputs[i], got[i].describe(),
                    cli::first_values(got[i], 40), wanted.describe(), cli::first_values(wanted, 40));
  }
  return "";
}

// Elements of `from` by position modulo its sizes.
Tensor resized(const Tensor& from, const std::vector<int64_t>& dims) {
  Result<Tensor> out = Tensor::allocate(from.dtype(), Shape(std::span<const int64_t>(dims)));
  const int bits = bits_of(from.dtype());
  if (bits < 8) std::memset(out->mutable_data(), 0, static_cast<size_t>(out->bytes()));
  for (int64_t i = 0; i < out->count() && from.count() > 0; ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int k = from.shape().rank() - 1; k >= 0; --k) {
      at += rest % dims[static_cast<size_t>(k)] % from.shape()[k] * step;
      rest /= dims[static_cast<size_t>(k)];
      step *= from.shape()[k];
    }
    if (from.dtype() == DType::string)
      static_cast<std::string*>(out->mutable_data())[i] = from.values<std::string>()[static_cast<size_t>(at)];
    else if (bits < 8)
      sub_byte_set(from.dtype(), out->mutable_data(), i, sub_byte_get(from.dtype(), from.data(), at));
    else
      std::memcpy(static_cast<char*>(out->mutable_data()) + i * bits / 8,
                  static_cast<const char*>(from.data()) + at * bits / 8, static_cast<size_t>(bits / 8));
  }
  if (from.count() == 0 && out->count() > 0 && from.dtype() != DType::string)
    std::memset(out->mutable_data(), 0, static_cast<size_t>(out->bytes()));
  return *out;
}

// The inputs with another size of one symbol.
std::vector<Value> with_size(const RandomGraph& graph, const std::string& symbol, int64_t size) {
  std::vector<Value> out = inputs_of(graph);
  for (size_t i = 0; i < out.size(); ++i) {
    const RandomInput& in = graph.inputs[i];
    if (!in.value.tensor() || std::count(in.symbols.begin(), in.symbols.end(), symbol) == 0) continue;
    const auto d = in.value.tensor()->shape().dims();
    std::vector<int64_t> dims(d.begin(), d.end());
    for (size_t k = 0; k < dims.size(); ++k)
      if (in.symbols[k] == symbol) dims[k] = size;
    out[i] = resized(*in.value.tensor(), dims);
  }
  return out;
}

std::map<std::string, int64_t> symbols_of(const RandomGraph& graph) {
  std::map<std::string, int64_t> out;
  for (const RandomInput& i : graph.inputs)
    for (size_t k = 0; k < i.symbols.size(); ++k)
      if (!i.symbols[k].empty()) out[i.symbols[k]] = i.value.tensor()->shape()[static_cast<int>(k)];
  return out;
}

}  // namespace

Verdict check_model(const RandomModel& model) {
  Verdict out;
  const RandomGraph& graph = model.graph;
  const Interpreter interpreter(model);
  const std::vector<Value> inputs = inputs_of(graph);
  const Result<Scope> scope = interpreter.run(graph, inputs);
  const auto fail = [&](std::string why) {
    out.failure = std::move(why);
    return !out.failure.empty();
  };
  if (!scope.ok()) {
    out.valid = false;
    fail(scope.status().message());
    return out;
  }
  const Result<Model> whole = to_model(model, *scope);
  const Result<std::string> bytes = whole.ok() ? onnx::write_model(*whole) : whole.status().message();
  for (const int threads : {1, 2, 3}) {
    SessionOptions options;
    options.threads = threads;
    if (threads == 2) options.order = ExecutionOrder::priority_based;
    if (threads == 3) options.optimization_level = 0;
    options.disabled_rewrites = {"keep_wide"};  // nodes alone round every value
    const auto session = Session::from_bytes(borrow_bytes(bytes->data(), bytes->size()), options);
    if (!session.ok()) {
      fail(format("load: {}", session.status().message()));
      return out;
    }
    Session& s = **session;
    if (fail(check_facts(*s.model().graph, *scope, Symbols(graph, inputs)))) return out;
    for (const char* how : {"first run", "second run"}) {
      ++out.runs;
      if (fail(compare_run(s, graph, inputs, scope, format("{}, {} threads", how, threads)))) return out;
    }
    for (const auto& [symbol, size] : symbols_of(graph)) {
      // The choice depends on the symbol alone, so that it stays while the model shrinks.
      const int64_t other = std::hash<std::string>{}(symbol) % 5 == 0 ? 0 : threads < 3 ? size + threads : size * 2 + 1;
      if ((std::hash<std::string>{}(symbol) / 7) % 3 == 0) continue;
      const std::vector<Value> changed = with_size(graph, symbol, other);
      const Result<Scope> want = interpreter.run(graph, changed);
      out.runs += 2;
      if (fail(compare_run(s, graph, changed, want, format("{} = {}, {} threads", symbol, other, threads)))) return out;
      // Where 0 means "as the input" (Reshape), the symbol stands for numbers that are not 0.
      if (want.ok() && other && fail(check_facts(*s.model().graph, *want, Symbols(graph, changed)))) return out;
      if (fail(compare_run(s, graph, inputs, scope, format("{} = {} again, {} threads", symbol, size, threads))))
        return out;
    }
  }
  return out;
}

Verdict check_apart(const RandomModel& model) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const Verdict v = check_model(model);
    const std::string text = (v.valid ? "1" : "0") + v.failure;
    const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return {true, format("crash: status {}", status), 0};
  return {text[0] == '1', text.substr(1), 0};
}

// --------------------------------------------------------------------------------------------------- shrinking

namespace {

void drop_unused(RandomGraph& graph) {
  std::set<std::string> read(graph.outputs.begin(), graph.outputs.end());
  std::vector<RandomNode> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    RandomNode& n = graph.nodes[i];
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const auto& o) { return read.contains(o) && !o.empty(); }))
      continue;
    const std::set<std::string> more = reads_of(n);
    read.insert(more.begin(), more.end());
    kept.push_back(n);
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::erase_if(graph.constants, [&](const auto& c) { return !read.contains(c.first); });
}
void drop_unused_inputs(RandomGraph& graph) {
  drop_unused(graph);
  std::set<std::string> read(graph.outputs.begin(), graph.outputs.end());
  for (const RandomNode& n : graph.nodes) {
    const std::set<std::string> more = reads_of(n);
    read.insert(more.begin(), more.end());
  }
  std::erase_if(graph.inputs, [&](const RandomInput& i) { return !read.contains(i.name); });
}

// Bodies without nodes that their outputs do not need. Bodies may be shared with the original: copied first.
void trim_bodies(RandomGraph& graph) {
  for (RandomNode& n : graph.nodes)
    for (auto& [name, body] : n.bodies) {
      body = std::make_shared<RandomGraph>(*body);
      drop_unused(*body);
      trim_bodies(*body);
    }
}

class Shrinker {
 public:
  Shrinker(RandomModel model, Verdict (*check)(const RandomModel&)) : best_(std::move(model)), check_(check) {
    kind_ = check(best_).kind();
  }

  RandomModel run() {
    attempt([](RandomModel& m) { trim_bodies(m.graph); });
    for (int round = 0; round < 6; ++round) {
      const int before = accepted_;
      single_output();
      cut_nodes();
      static_inputs();
      smaller_sizes();
      drop_outputs();
      if (accepted_ == before) break;
    }
    return std::move(best_);
  }

 private:
  template <class F>
  bool attempt(F&& change) {
    if (++attempts_ > 600) return false;
    RandomModel m = best_;
    change(m);
    drop_unused_inputs(m.graph);
    const Verdict v = check_(m);
    if (!v.failed() || v.kind() != kind_) return false;
    best_ = std::move(m);
    ++accepted_;
    return true;
  }

  void single_output() {
    if (best_.graph.outputs.size() < 2) return;
    const std::vector<std::string> all = best_.graph.outputs;
    for (const std::string& o : all)
      if (attempt([&](RandomModel& m) { m.graph.outputs = {o}; })) return;
  }

  // A node gives way to inputs that hold its results.
  void cut_nodes() {
    for (size_t i = best_.graph.nodes.size(); i-- > 0;) {
      if (i >= best_.graph.nodes.size() || best_.graph.nodes.size() < 2) continue;
      const Result<Scope> scope = Interpreter(best_).run(best_.graph, inputs_of(best_.graph));
      if (!scope.ok()) return;
      attempt([&](RandomModel& m) {
        const std::vector<std::string> outputs = m.graph.nodes[i].outputs;
        m.graph.nodes.erase(m.graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        for (const std::string& o : outputs) {
          if (o.empty()) continue;
          if (std::erase(m.graph.outputs, o) && m.graph.outputs.empty()) m.graph.outputs = {o};
          m.graph.inputs.push_back({o, scope->at(o)});
        }
      });
    }
  }

  void static_inputs() {
    attempt([](RandomModel& m) {
      for (RandomInput& i : m.graph.inputs) i.symbols.clear(), i.ranked = true;
    });
    for (size_t i = 0; i < best_.graph.inputs.size(); ++i) {
      if (best_.graph.inputs[i].symbols.empty()) continue;
      attempt([&](RandomModel& m) { m.graph.inputs[i].symbols.clear(); });
    }
  }

  void smaller_sizes() {
    std::set<int64_t> sizes;
    const auto collect = [&](const Tensor& t) { sizes.insert(t.shape().dims().begin(), t.shape().dims().end()); };
    for (const RandomInput& i : best_.graph.inputs)
      if (i.value.tensor()) collect(*i.value.tensor());
    for (const int64_t from : sizes)
      for (const int64_t to : {int64_t{1}, int64_t{2}}) {
        if (to >= from) continue;
        const auto smaller = [&](const Tensor& t) {
          std::vector<int64_t> dims(t.shape().dims().begin(), t.shape().dims().end());
          std::replace(dims.begin(), dims.end(), from, to);
          return resized(t, dims);
        };
        attempt([&](RandomModel& m) {
          for (RandomInput& i : m.graph.inputs)
            if (i.value.tensor()) i.value = smaller(*i.value.tensor());
          for (auto& c : m.graph.constants) c.second = smaller(c.second);
        });
      }
  }

  // Optional outputs that nobody reads, and bodies without what is not needed.
  void drop_outputs() {
    for (size_t i = 0; i < best_.graph.nodes.size(); ++i)
      for (size_t o = best_.graph.nodes[i].outputs.size(); o-- > 1;)
        attempt([&](RandomModel& m) {
          RandomNode& n = m.graph.nodes[i];
          std::erase(m.graph.outputs, n.outputs[o]);
          n.outputs[o].clear();
        });
  }

  RandomModel best_;
  Verdict (*check_)(const RandomModel&);
  std::string kind_;
  int attempts_ = 0, accepted_ = 0;
};

}  // namespace

RandomModel shrink(RandomModel model, Verdict (*check)(const RandomModel&)) {
  return Shrinker(std::move(model), check).run();
}

std::string show(const RandomModel& model) {
  Result<Model> m = to_model(model);
  if (!m.ok()) return m.status().message();
  std::string out = to_text(*m, {.most_elements = 200});
  for (const RandomInput& i : model.graph.inputs)
    out += format("{} = {} {}\n", i.name, i.value.describe(), cli::first_values(i.value, 200));
  return out;
}

}  // namespace tessera::testing
