#include "passes/pattern.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/convert.h"

namespace tessera {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Pattern pattern() {
    Pattern p;
    p.constant = take('#');
    p.bind = word();
    if (take(':')) {
      p.op = word();
    } else if (peek() == '(' || peek() == '~' || peek() == '*' || peek() == '.') {
      p.op = std::move(p.bind);
      p.bind.clear();
    }
    // "com.microsoft.Gelu": what stands before the last dot is the domain.
    while (take('.')) {
      p.domain += (p.domain.empty() ? "" : ".") + p.op;
      p.op = word();
    }
    p.commutes = take('~');
    p.shared = take('*');
    if (take('(') && peek() != ')') do
        p.inputs.push_back(pattern());
      while (take(','));
    if (!p.op.empty()) {
      [[maybe_unused]] const bool closed = take(')');
      assert(closed);
    }
    p.optional = take('?');
    return p;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Pattern Pattern::parse(std::string_view text) { return Reader(text).pattern(); }

namespace {

// The weight behind a value of `graph` or of one around it; null if it is no constant.
const Weight* constant_of(const MatchScope& scope, const ir::Graph& graph, ir::ValueId v) {
  const ir::Graph* g = &graph;
  size_t around = scope.outer.size();
  while (g->value(v).source == ir::Source::captured && around > 0) {
    v = g->value(v).outer;
    g = scope.outer[--around];
  }
  return g->value(v).is_input ? nullptr : g->weight_of(v);
}

}  // namespace

class Matcher {
 public:
  Matcher(const MatchScope& scope, const ir::Graph& graph, Match& match)
      : scope_(scope), graph_(graph), match_(match) {}

  bool node(const Pattern& p, ir::NodeId id, bool shared) {
    const ir::Node& n = graph_.node(id);
    if (n.dead || n.op_type != p.op || n.domain != p.domain) return false;
    if (p.inputs.size() < n.inputs.size()) return false;
    match_.nodes_.push_back({p.bind, id, shared});
    if (inputs(p, n, shared, false)) return true;
    return p.commutes && n.inputs.size() >= 2 && inputs(p, n, shared, true);
  }

 private:
  // Tries one order of the inputs; leaves the match as it was if that fails.
  bool inputs(const Pattern& p, const ir::Node& n, bool shared, bool swapped) {
    const Match before = match_;
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      const size_t from = swapped && i < 2 ? 1 - i : i;
      const ir::ValueId v = from < n.inputs.size() ? n.inputs[from] : ir::kNone;
      if (!value(p.inputs[i], v, shared)) {
        match_ = before;
        return false;
      }
    }
    return true;
  }

  bool value(const Pattern& p, ir::ValueId v, bool shared) {
    if (v == ir::kNone) return p.optional;
    const ir::ValueInfo& info = graph_.value(v);
    if (p.op.empty()) {
      if (p.constant && !constant_of(scope_, graph_, v)) return false;
      const auto [it, fresh] = match_.values_.emplace(p.bind, v);
      return fresh || it->second == v;
    }
    if (info.source != ir::Source::node) return false;
    shared = shared || p.shared;
    if (!shared && (info.is_output || graph_.readers(v).size() != 1)) return false;
    return node(p, info.producer, shared);
  }

  const MatchScope& scope_;
  const ir::Graph& graph_;
  Match& match_;
};

std::optional<Match> match(const Pattern& pattern, const MatchScope& scope, const ir::Graph& graph, ir::NodeId root) {
  Match m(scope, graph);
  if (!Matcher(scope, graph, m).node(pattern, root, false)) return {};
  return m;
}

const ir::Node& Match::node(std::string_view name) const {
  for (const Bound& n : nodes_)
    if (n.bind == name) return graph_->node(n.id);
  assert(false);
  return graph_->node(root());
}

bool Match::has_node(std::string_view name) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Bound& n) { return n.bind == name; });
}

ir::ValueId Match::value(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? ir::kNone : it->second;
}

const Weight* Match::weight(std::string_view name) const {
  const ir::ValueId v = value(name);
  return v == ir::kNone ? nullptr : constant_of(*scope_, *graph_, v);
}

Tensor Match::tensor(std::string_view name) const {
  const Weight* w = weight(name);
  if (!w) return {};
  Result<Tensor> t = w->tensor();
  return t.ok() ? std::move(*t) : Tensor();
}

bool Match::is_number(std::string_view name, double number) const {
  const Weight* w = weight(name);
  if (!w || w->shape.count() != 1 || !kNumbers.has(w->dtype)) return false;
  const Tensor t = tensor(name);
  if (t.empty()) return false;
  double got = 0;
  decode(t.dtype(), t.data(), 0, 1, &got);
  return std::abs(got - number) <= 1e-4 * std::abs(number);
}

int64_t Match::integer(std::string_view name, std::string_view attribute, int64_t otherwise) const {
  const ir::Attribute* a = node(name).find(attribute);
  const auto* v = a ? std::get_if<int64_t>(&a->value) : nullptr;
  return v ? *v : otherwise;
}

float Match::real(std::string_view name, std::string_view attribute, float otherwise) const {
  const ir::Attribute* a = node(name).find(attribute);
  const auto* v = a ? std::get_if<float>(&a->value) : nullptr;
  return v ? *v : otherwise;
}

}  // namespace tessera
