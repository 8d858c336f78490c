// OrtValue: a Value in the client's hands. Two OrtValues may share storage (a bound output and what was read from it).
#pragma once
#include "core/value.h"
#include "tessera/c_api.h"

namespace tessera::capi {

// How a sparse tensor is stored. Compressed rows have two lists of indices: the inner one is the value's own.
struct SparseLayout {
  OrtSparseFormat format = ORT_SPARSE_COO;
  Tensor outer = {};
};

}  // namespace tessera::capi

struct OrtValue {
  tessera::Value value;
  tessera::capi::SparseLayout layout = {};
};

namespace tessera::capi {

// Between the numbers of the C ABI and ours. What the other side does not have is undefined.
DType dtype_of_onnx(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_of_dtype(DType type);

// A tensor with storage of its own and the same elements.
Result<Tensor> copy_of(const Tensor& tensor);
// Copies the elements of `from` over those of `to`; both have the same type and shape.
void copy_elements(const Tensor& from, Tensor& to);

// The tensor inside, or an error that says what `value` is instead.
Result<const Tensor*> tensor_in(const OrtValue* value);

}  // namespace tessera::capi
