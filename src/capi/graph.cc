#include "capi/graph.h"

const OrtValueInfo* OrtNode::value(const std::string& argument) const {
  if (argument.empty()) return nullptr;
  if (graph) return graph->complete().find(argument);
  const auto it = own_values.find(argument);
  return it == own_values.end() ? nullptr : &it->second;
}

const OrtValueInfo* OrtGraph::find(std::string_view value) const {
  const auto it = values.find(value);
  return it == values.end() ? nullptr : it->second.get();
}

const OrtGraph::Initializer* OrtGraph::initializer(std::string_view value) const {
  const auto it = initializer_index.find(value);
  return it == initializer_index.end() ? nullptr : &initializers[it->second].second;
}

OrtValueInfo& OrtGraph::use(const std::string& value) {
  std::unique_ptr<OrtValueInfo>& place = values[value];
  if (!place) {
    place = std::make_unique<OrtValueInfo>();
    place->name = value;
    place->graph = this;
  }
  return *place;
}

OrtValueInfo& OrtGraph::adopt(std::unique_ptr<OrtValueInfo> info) {
  info->graph = this;
  std::unique_ptr<OrtValueInfo>& place = values[info->name];
  if (!info->type && place && place->type) info->type = std::make_unique<const OrtTypeInfo>(*place->type);
  if (place) replaced.push_back(std::move(place));
  place = std::move(info);
  for (auto* list : {&inputs, &outputs})
    for (const OrtValueInfo*& v : *list)
      if (v->name == place->name) v = place.get();
  return *place;
}

namespace tessera::capi {

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

}  // namespace tessera::capi
