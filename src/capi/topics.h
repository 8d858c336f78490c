// The topics of the C ABI. Each writes its functions into the table; slots that nobody writes stay stand-ins.
#pragma once
#include "tessera/c_api.h"

namespace tessera::capi {

// topics_full.cc and topics_minimal.cc each define these; a library links one of them.
// A table whose functions say that they are not there.
OrtApi stand_ins();
// All topics that the library has.
void fill_topics(OrtApi& api);

// Of small libraries: values that are no tensors (values_all.cc), or nothing (values_tensors.cc).
void fill_values(OrtApi& api);

void fill_allocator(OrtApi& api);
void fill_arena(OrtApi& api);
void fill_binding(OrtApi& api);
void fill_container(OrtApi& api);
void fill_custom_op(OrtApi& api);
void fill_device(OrtApi& api);
void fill_env(OrtApi& api);
void fill_initializers(OrtApi& api);
void fill_invoke_op(OrtApi& api);
void fill_kernel_context(OrtApi& api);
void fill_kernel_info(OrtApi& api);
void fill_key_values(OrtApi& api);
void fill_logger(OrtApi& api);
void fill_lora(OrtApi& api);
void fill_metadata(OrtApi& api);
void fill_op_attr(OrtApi& api);
void fill_options(OrtApi& api);
void fill_run(OrtApi& api);
void fill_run_async(OrtApi& api);
void fill_session(OrtApi& api);
void fill_shape_infer(OrtApi& api);
void fill_string_tensor(OrtApi& api);
void fill_threads(OrtApi& api);
void fill_type_info(OrtApi& api);
void fill_value(OrtApi& api);

}  // namespace tessera::capi
