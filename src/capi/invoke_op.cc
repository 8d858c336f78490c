// Operators that a custom operator calls from its own kernel.
#include "capi/guard.h"
#include "capi/kernel_context.h"
#include "capi/topics.h"
#include "session/one_op.h"

struct OrtOp {
  std::unique_ptr<tessera::OneOp> op;
  std::string title;
};

namespace tessera::capi {
namespace {

// Type constraints are not needed: kernels are chosen by the values they get.
Status create(const OrtKernelInfo* info, const char* name, const char* domain, int version, const char**,
              const ONNXTensorElementDataType*, int, const OrtOpAttr* const* attributes, int attribute_count,
              int inputs, int outputs, OrtOp** out) {
  TRY(not_null({{"info", info}, {"op_name", name}, {"domain", domain}, {"ort_op", out}}));
  if (attribute_count > 0) TRY(not_null({{"attr_values", attributes}}));
  constexpr int kMost = 1 << 16;
  if (inputs < 0 || inputs > kMost || outputs < 1 || outputs > kMost)
    return invalid("operator {} with {} inputs and {} outputs", quote(name), inputs, outputs);
  ir::Node node;
  node.name = info->node;
  node.op_type = name;
  node.domain = std::string_view(domain) == "ai.onnx" ? "" : domain;
  node.version = version;
  for (int i = 0; i < attribute_count; ++i) {
    TRY(not_null({{"an attribute of attr_values", attributes[i]}}));
    node.attributes.push_back(attributes[i]->attribute);
  }
  auto made = std::make_unique<OrtOp>();
  made->title = node.title();
  TRY_ASSIGN(op, OneOp::create(node, inputs, outputs, {}));
  made->op = std::move(op);
  *out = made.release();
  return {};
}

void release(OrtOp* op) { delete op; }

Status invoke(const OrtKernelContext* context, const OrtOp* op, const OrtValue* const* inputs, int input_count,
              OrtValue* const* outputs, int output_count) {
  TRY(not_null({{"context", context}, {"ort_op", op}}));
  if (input_count > 0) TRY(not_null({{"input_values", inputs}}));
  if (output_count > 0) TRY(not_null({{"output_values", outputs}}));
  if (input_count < 0 || output_count < 0) return invalid("a negative number of arguments");
  std::vector<Value> in, out;
  for (int i = 0; i < input_count; ++i) in.push_back(inputs[i] ? inputs[i]->value : Value());
  for (int o = 0; o < output_count; ++o) {
    TRY(not_null({{"a value of output_values", outputs[o]}}));
    out.push_back(outputs[o]->value);
  }
  TRY(op->op->run(in, out, context->call().threads(), context->call().target()).in(op->title));
  for (int o = 0; o < output_count; ++o) {
    Tensor* to = outputs[o]->value.tensor();
    const Tensor* from = out[static_cast<size_t>(o)].tensor();
    if (!to || !from || from->dtype() != to->dtype() || !(from->shape() == to->shape()))
      return invalid("{}: output {} was given as {}, it computed {}", op->title, o, outputs[o]->value.describe(),
                     out[static_cast<size_t>(o)].describe());
    if (from->data() != to->data()) copy_elements(*from, *to);
  }
  return {};
}

}  // namespace

void fill_invoke_op(OrtApi& api) {
  api.CreateOp = slot<create>;
  api.InvokeOp = slot<invoke>;
  api.ReleaseOp = release;
}

}  // namespace tessera::capi
