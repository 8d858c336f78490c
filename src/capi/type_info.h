// Descriptions of types and shapes, for values and for what a session takes and gives.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/value.h"
#include "session/session.h"
#include "tessera/c_api.h"

struct OrtTensorTypeAndShapeInfo {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  bool has_shape = true;
  std::vector<int64_t> dims;         // -1 where unknown
  std::vector<std::string> symbols;  // as many as dims; empty where there is no name
};
struct OrtMapTypeInfo {
  ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::shared_ptr<const OrtTypeInfo> value;
};
struct OrtSequenceTypeInfo {
  std::shared_ptr<const OrtTypeInfo> element;
};
struct OrtOptionalTypeInfo {
  std::shared_ptr<const OrtTypeInfo> contained;
};

// `kind` says which of the four parts means something.
struct OrtTypeInfo {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  std::string denotation;
  OrtTensorTypeAndShapeInfo tensor;  // of sparse tensors too
  OrtMapTypeInfo map;
  OrtSequenceTypeInfo sequence;
  OrtOptionalTypeInfo optional;
};

namespace tessera::capi {

OrtTypeInfo type_info_of(const Fact& fact);
OrtTypeInfo type_info_of(const Value& value);

}  // namespace tessera::capi
