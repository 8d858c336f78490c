// OrtModel, OrtGraph, OrtNode and OrtValueInfo: a model that the client puts together. A graph owns its parts; what it
// has handed out stays valid as long as the graph. Not locked.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "capi/op_attr.h"
#include "capi/type_info.h"
#include "capi/value.h"
#include "tessera/c_api.h"

struct OrtValueInfo {
  std::string name;
  std::unique_ptr<const OrtTypeInfo> type;  // null: nothing is known
  const OrtGraph* graph = nullptr;          // null: in none yet
};

struct OrtNode {
  std::string op, domain, name;
  std::vector<std::string> inputs, outputs;  // empty where absent
  std::vector<std::unique_ptr<OrtOpAttr>> attributes;
  const OrtGraph* graph = nullptr;                              // null: in none yet
  size_t id = 0;                                                // place among the nodes of the graph
  std::map<std::string, OrtValueInfo, std::less<>> own_values;  // of a node that is in no graph

  // What stands for an argument; null for an absent one.
  const OrtValueInfo* value(const std::string& argument) const;
};

struct OrtGraph {
  struct Initializer {
    std::unique_ptr<OrtValue> value;
    bool borrowed;  // the client keeps its memory while sessions use it
  };

  std::string name;
  const OrtModel* model = nullptr;                                // null: in none yet
  const OrtGraph* whole = nullptr;                                // of a view: what it is a part of
  std::vector<const OrtValueInfo*> inputs, outputs;               // each in values
  bool inputs_set = false, outputs_set = false;                   // by the client
  std::vector<const OrtNode*> nodes;                              // in owned_nodes, of the whole graph
  std::vector<std::pair<std::string, Initializer>> initializers;  // in the order they came
  std::map<std::string, size_t, std::less<>> initializer_index;   // place in initializers
  std::set<const OrtValue*> initializer_values;
  std::vector<std::unique_ptr<OrtNode>> owned_nodes;
  std::map<std::string, std::unique_ptr<OrtValueInfo>, std::less<>> values;
  std::vector<std::unique_ptr<OrtValueInfo>> replaced;  // kept for clients that still hold them

  // The graph that knows all values and initializers.
  const OrtGraph& complete() const { return whole ? *whole : *this; }
  const OrtValueInfo* find(std::string_view value) const;
  const Initializer* initializer(std::string_view value) const;
  // The value of a name, made if it is new.
  OrtValueInfo& use(const std::string& value);
  // Makes `info` the value of its name; a type that was known stays if `info` has none.
  OrtValueInfo& adopt(std::unique_ptr<OrtValueInfo> info);
};

struct OrtModel {
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::unique_ptr<OrtGraph> graph;
};

namespace tessera::capi {

// The default domain has two names.
std::string plain_domain(const std::string& domain);

}  // namespace tessera::capi
