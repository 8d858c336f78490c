// ONNX Runtime's model format: a FlatBuffers file whose tables have these fields, by number.
#pragma once
#include <cstdint>
#include <string_view>

namespace tessera::ort {

inline constexpr std::string_view kIdentifier = "ORTM";
inline constexpr int kOldestVersion = 4, kNewestVersion = 6;
// The newest element type of the format, DType::f8e5m2fnuz.
inline constexpr int kLastElementType = 20;

// Fields and numbers marked as ours are no part of ONNX Runtime's format; it skips such fields and refuses such types.
namespace session {
enum : int { ort_version, model, session_state, kernel_type_str_resolver };
}
namespace model {
enum : int {
  ir_version,
  opset_import,
  producer_name,
  producer_version,
  domain,
  model_version,
  doc_string,
  graph,
  graph_doc_string,
  metadata_props
};
}
namespace opset {
enum : int { domain, version };
}
namespace entry {
enum : int { key, value };
}
namespace graph {
enum : int {
  initializers,
  node_args,
  nodes,
  max_node_index,
  node_edges,
  inputs,
  outputs,
  sparse_initializers,
  runtime_optimizations
};
}
namespace optimizations {
enum : int { records };
}
namespace optimizations_of {
enum : int { optimizer_name, records };
}
namespace node {
enum : int {
  name,
  doc_string,
  domain,
  since_version,
  index,
  op_type,
  type,
  execution_provider_type,
  inputs,
  outputs,
  attributes,
  input_arg_counts,
  implicit_inputs
};
}
namespace node_edge {
enum : int { node_index, input_edges, output_edges };
}
namespace attribute {
enum : int {
  name,
  doc_string,
  type,
  f,
  i,
  s,
  t,
  g,
  floats,
  ints,
  strings,
  tensors,
  graphs,
  sparse_tensors,  // ours
  types            // ours
};
}
namespace tensor {
enum : int {
  name,
  doc_string,
  dims,
  data_type,
  raw_data,
  string_data,
  external_data_offset,
  external_data_location  // ours: a file beside the model
};
}
namespace sparse {
enum : int { values, indices, dims };
}
namespace value_info {
enum : int { name, doc_string, type };
}
namespace type_info {
enum : int { denotation, value_type, value };
// What value_type says of value.
enum : uint8_t { none, tensor, sequence, map, optional /* ours */, sparse_tensor /* ours */ };
}  // namespace type_info
namespace tensor_type {
enum : int { elem_type, shape };
}
namespace sequence_type {
enum : int { elem_type };
}
namespace map_type {
enum : int { key_type, value_type };
}
namespace shape {
enum : int { dim };
}
namespace dimension {
enum : int { value, denotation };
}
namespace dimension_value {
enum : int { dim_type, dim_value, dim_param };
enum : int8_t { unknown, number, symbol };
}  // namespace dimension_value
namespace resolver {
enum : int { op_kernel_type_str_args };
}
namespace resolver_op {
enum : int { op_id, kernel_type_str_args };
}
namespace resolver_type {
enum : int { kernel_type_str, args };
}
namespace resolver_arg {
enum : int { arg_type, index };
enum : int8_t { input, output };
}  // namespace resolver_arg

// One end of an edge, as it lies in the file.
struct EdgeEnd {
  uint32_t node_index;
  int32_t src_arg_index, dst_arg_index;
};
static_assert(sizeof(EdgeEnd) == 12);

}  // namespace tessera::ort
