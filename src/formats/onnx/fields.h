// Field numbers of ONNX's protobuf messages: the one place they stand.
#pragma once
#include <cstdint>

namespace tessera::onnx {

namespace model {
enum : uint32_t {
  ir_version = 1,
  producer_name,
  producer_version,
  domain,
  model_version,
  doc_string,
  graph,
  opset_import,
  metadata_props = 14,
  functions = 25
};
}
namespace opset {
enum : uint32_t { domain = 1, version };
}
namespace entry {
enum : uint32_t { key = 1, value };
}
namespace graph {
enum : uint32_t {
  node = 1,
  name,
  initializer = 5,
  doc_string = 10,
  input,
  output,
  value_info,
  sparse_initializer = 15
};
}
namespace node {
enum : uint32_t { input = 1, output, name, op_type, attribute, domain = 7, overload };
}
namespace attribute {
enum : uint32_t {
  name = 1,
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
  tp = 14,
  type_protos,
  type = 20,
  ref_attr_name,
  sparse_tensor,
  sparse_tensors
};
}
namespace tensor {
enum : uint32_t {
  dims = 1,
  data_type,
  segment,
  float_data,
  int32_data,
  string_data,
  int64_data,
  name,
  raw_data,
  double_data,
  uint64_data,
  external_data = 13,
  data_location
};
}
namespace sparse {
enum : uint32_t { values = 1, indices, dims };
}
namespace type {
enum : uint32_t {
  tensor_type = 1,
  sequence_type = 4,
  map_type,
  denotation,
  opaque_type,
  sparse_tensor_type,
  optional_type
};
}
namespace tensor_type {
enum : uint32_t { elem_type = 1, shape };
}
namespace sequence_type {
enum : uint32_t { elem_type = 1 };
}  // namespace sequence_type
namespace map_type {
enum : uint32_t { key_type = 1, value_type };
}
namespace shape {
enum : uint32_t { dim = 1 };
}
namespace dimension {
enum : uint32_t { dim_value = 1, dim_param, denotation };
}
namespace value_info {
enum : uint32_t { name = 1, type };
}
namespace function {
enum : uint32_t {
  name = 1,
  input = 4,
  output,
  attribute,
  node,
  opset_import = 9,
  domain,
  attribute_proto,
  value_info,
  overload
};
}
// Values kept in files of their own, as ONNX's test data are.
namespace sequence {
enum : uint32_t {
  name = 1,
  elem_type,
  tensor_values,
  sparse_tensor_values,
  sequence_values,
  map_values,
  optional_values
};
}
namespace optional {
enum : uint32_t { name = 1, elem_type, tensor_value, sparse_tensor_value, sequence_value, map_value, optional_value };
}
namespace map {
enum : uint32_t { name = 1, key_type, keys, string_keys, values };
}

}  // namespace tessera::onnx
