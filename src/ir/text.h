// Models and graphs in ONNX's textual syntax (that of onnx.parser and onnx.printer), both ways:
//
//   <ir_version: 10, opset_import: ["" : 17]>
//   agraph (float[N,128] X, float[128,10] W) => (float[N,10] C) <float[10] B = {1, 2}> {
//     T = MatMul (X, W)
//     [sum] C = com.example.Add:overload <axis = 1, bias = @b> (T, B)
//   }
//
// Printing and parsing again gives the same text. What the syntax has no words for is dropped: documentation of graphs
// and nodes, denotations, payloads of NaNs, fields of later ONNX versions. As in ONNX, half and 8-bit floats are
// written as their bits, complex numbers as pairs, and types below 8 bits as the bytes they are packed into. Where
// ONNX's own parser has no form, ours takes one more: quoted names of attributes, operators, domains and subgraphs,
// lists of tensors, graphs and types, and sparse_tensor(float[3,4]) {float[2] {1, 2}, int64[2] {0, 5}}.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tessera {

struct TextOptions {
  // Constants with more elements than this are cut to their first ones and "..."; such text cannot be parsed back.
  int64_t most_elements = INT64_MAX;
};

std::string to_text(const Model& model, const TextOptions& options = {});
std::string to_text(const ir::Graph& graph, const TextOptions& options = {});

// Any text may be given. Errors say line and column (from 1), what was got and what was wanted; names nobody defines
// and domains nobody imports are errors too. Constants of external files keep their location and have no bytes.
Result<Model> parse_text(std::string_view text);
// One graph on its own. Nodes get the versions of `opsets`, 0 where their domain is not among them.
Result<std::shared_ptr<ir::Graph>> parse_graph_text(std::string_view text,
                                                    std::span<const std::pair<std::string, int64_t>> opsets = {},
                                                    std::shared_ptr<DimPool> dims = std::make_shared<DimPool>());

}  // namespace tessera
