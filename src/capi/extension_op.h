// Operators of the extension table: TesseraOperator structs of a client.
#pragma once
#include <memory>
#include <string>

#include "capi/kernel_info.h"
#include "session/options.h"
#include "tessera/extension.h"

namespace tessera::capi {

// A copy of what the client gave.
struct ExtensionOp {
  TesseraOperator op;
  std::string domain, name, layout;
};

std::shared_ptr<const CustomOp> make_extension_op(std::shared_ptr<const CustomSession> session,
                                                  std::shared_ptr<const ExtensionOp> from);

// The slots of TesseraApi.
Status add_operator(OrtSessionOptions* options, const TesseraOperator* op);
Status shape_counts(const TesseraShapeCall* call, size_t* inputs, size_t* outputs);
Status shape_input(const TesseraShapeCall* call, size_t index, ONNXTensorElementDataType* type, const TesseraDim** dims,
                   size_t* rank);
Status shape_content(TesseraShapeCall* call, size_t index, const TesseraDim** elements, size_t* count);
Status shape_set_output(TesseraShapeCall* call, size_t index, const TesseraDim* dims, size_t rank);
Status shape_unknown(TesseraShapeCall* call, TesseraDim* out);
Status dim_combine(TesseraDimOp op, const TesseraDim* a, const TesseraDim* b, TesseraDim* out);
Status get_packed(const OrtKernelContext* context, size_t index, const void** packed);

}  // namespace tessera::capi
