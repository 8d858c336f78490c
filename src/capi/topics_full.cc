// Every topic of the C ABI.
#include "capi/not_implemented.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

// A table none of whose functions is there: each says so when called.
template <class Table>
const Table* absent_table() noexcept {
  return &not_implemented_table<Table>;
}

}  // namespace

OrtApi stand_ins() { return not_implemented_table<OrtApi>; }

void fill_topics(OrtApi& api) {
  api.GetModelEditorApi = absent_table<OrtModelEditorApi>;
  api.GetCompileApi = absent_table<OrtCompileApi>;
  api.GetInteropApi = absent_table<OrtInteropApi>;
  api.GetModelPackageApi = absent_table<OrtModelPackageApi>;
  api.GetEpApi = absent_table<OrtEpApi>;
  fill_allocator(api);
  fill_arena(api);
  fill_binding(api);
  fill_container(api);
  fill_custom_op(api);
  fill_device(api);
  fill_env(api);
  fill_initializers(api);
  fill_invoke_op(api);
  fill_kernel_context(api);
  fill_kernel_info(api);
  fill_key_values(api);
  fill_logger(api);
  fill_lora(api);
  fill_metadata(api);
  fill_op_attr(api);
  fill_options(api);
  fill_run(api);
  fill_run_async(api);
  fill_session(api);
  fill_shape_infer(api);
  fill_string_tensor(api);
  fill_threads(api);
  fill_type_info(api);
  fill_value(api);
}

}  // namespace tessera::capi
