#include "capi/shape_infer.h"

#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/value.h"

using namespace tessera;

// Every size that is no number gets a name, so that it comes back as the same size.
OrtShapeInferContext::OrtShapeInferContext(const OrtKernelInfo& info, DimPool& pool, std::span<const Fact* const> in,
                                           std::span<Fact> out)
    : node(info), dims(pool), outputs(out) {
  for (const Fact* f : in) {
    OrtTensorTypeAndShapeInfo& i = inputs.emplace_back();
    i.has_shape = false;
    if (!f || f->kind != Kind::tensor) continue;
    i = capi::type_info_of(*f).tensor;
    for (size_t k = 0; f->shape && k < f->shape->size(); ++k) {
      const Dim& d = (*f->shape)[k];
      if (d.known()) continue;
      if (i.symbols[k].empty()) i.symbols[k] = d.str();
      expressions.emplace(i.symbols[k], d);
    }
  }
}

namespace tessera::capi {
namespace {

Status input_count(const OrtShapeInferContext* context, size_t* out) {
  TRY(not_null({{"context", context}, {"out", out}}));
  *out = context->inputs.size();
  return {};
}

// The context keeps owning what it gives: clients do not release it. An absent input has no type and no shape.
Status input_type_shape(const OrtShapeInferContext* context, size_t index, OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"context", context}, {"info", out}}));
  if (index >= context->inputs.size()) return invalid("input {} of a node that has {}", index, context->inputs.size());
  *out = const_cast<OrtTensorTypeAndShapeInfo*>(&context->inputs[index]);
  return {};
}

Status get_attribute(const OrtShapeInferContext* context, const char* name, const OrtOpAttr** out) {
  TRY(not_null({{"context", context}, {"attr_name", name}, {"attr", out}}));
  *out = context->node.find(name);
  if (!*out) return invalid("the node has no attribute {}", quote(name));
  return {};
}

Result<std::vector<Dim>> dims_of(const OrtShapeInferContext& context, const OrtTensorTypeAndShapeInfo& info) {
  if (info.dims.size() >= kMaxRank)
    return invalid("a shape of rank {}, fewer than {} are supported", info.dims.size(), kMaxRank);
  std::vector<Dim> out;
  for (size_t k = 0; k < info.dims.size(); ++k) {
    const std::string name = k < info.symbols.size() ? info.symbols[k] : std::string();
    const auto known = context.expressions.find(name);
    if (info.dims[k] >= 0)
      out.push_back(info.dims[k]);
    else if (known != context.expressions.end())
      out.push_back(known->second);
    else
      out.push_back(name.empty() ? context.dims.fresh() : context.dims.symbol(name));
  }
  return out;
}

Status set_output(const OrtShapeInferContext* context, size_t index, const OrtTensorTypeAndShapeInfo* info) {
  TRY(not_null({{"context", context}, {"info", info}}));
  if (index >= context->outputs.size())
    return invalid("output {} of a node that has {}", index, context->outputs.size());
  Fact& f = context->outputs[index];
  if (info->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) f.dtype = dtype_of_onnx(info->type);
  f.kind = Kind::tensor;
  if (!info->has_shape) return {};
  TRY_ASSIGN(dims, dims_of(*context, *info));
  f.shape = std::move(dims);
  return {};
}

}  // namespace

void fill_shape_infer(OrtApi& api) {
  api.ShapeInferContext_GetInputCount = slot<input_count>;
  api.ShapeInferContext_GetInputTypeShape = slot<input_type_shape>;
  api.ShapeInferContext_GetAttribute = slot<get_attribute>;
  api.ShapeInferContext_SetOutputTypeShape = slot<set_output>;
}

}  // namespace tessera::capi
