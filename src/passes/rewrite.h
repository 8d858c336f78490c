// Rewriting: rules that find a pattern and put something better in its place. A rule sees its match only, never walks
// the graph and never knows another rule; the order of rules is in pipeline.cc.
#pragma once
#include <map>
#include <span>
#include <string>

#include "ir/patch.h"
#include "passes/pattern.h"

namespace tessera {

// Limits rewrites to what a file of the default operator set `opset` can say; 0: no limit. is_same_since (same_since.h)
// tells of operators that have newer forms.
struct Sayable {
  int opset = 0;
  bool (*is_same_since)(const Op& op, int opset) = nullptr;
};

// What a rule builds. The nodes of the match are removed when it is applied, shared ones if nobody reads them then.
class Replacement {
 public:
  Replacement(const Match& match, ir::Graph& graph, Sayable sayable = {});

  // The first output of a new node; "com.microsoft.Name" outside the default domain.
  ir::ValueId node(std::string_view op, std::vector<ir::ValueId> inputs, std::vector<ir::Attribute> attributes = {});
  ir::ValueId constant(Tensor tensor, std::string_view hint) { return patch_.constant(std::move(tensor), hint); }
  // Output 0 of the root is this value from now on.
  void result(ir::ValueId value) { patch_.replace(root_output_, value); }

 private:
  friend class Rewriter;
  ir::Patch patch_;
  std::string name_;            // of the root node
  std::vector<const Op*> had_;  // the operators of the match
  ir::ValueId root_output_;
  Sayable sayable_;
  bool is_sayable_ = true;  // this library has what was made, and a file can say it
};

struct Rule {
  const char* name;
  int level;  // of graph optimisation at which it runs: 1 basic, 2 extended
  int stage;  // it is tried when no rule of an earlier stage fits any more
  std::span<const char* const> patterns;
  // False: leave it alone. Nothing that was staged is kept then.
  bool (*apply)(const Match&, Replacement&);
};

struct RewriteOptions {
  int level = 2;
  std::span<const std::string> disabled = {};  // names of rules
  int64_t most = INT64_MAX;                    // applications, to find a bad one by halving
  RewriteSettings settings = {};
  Sayable sayable = {};
};

// How often each rule was applied.
using RewriteCounts = std::map<std::string, int64_t>;

// Applies `rules` to a resolved and inferred graph and its subgraphs until none fits any more.
Result<RewriteCounts> rewrite(ir::Graph& graph, std::span<const Rule* const> rules, const RewriteOptions& options);

// The rules of the library, in the order in which they are tried.
std::span<const Rule* const> rewrite_rules();

}  // namespace tessera
