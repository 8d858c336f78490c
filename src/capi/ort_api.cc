// The table of the C ABI and the one symbol that leads to it.
#include <cstdio>
#include <cstring>

#include "capi/compile.h"
#include "capi/model_editor.h"
#include "capi/not_implemented.h"
#include "capi/status.h"
#include "capi/topics.h"
#include "tessera/c_api.h"
#include "tessera/extension.h"

namespace tessera::capi {
namespace {

constexpr const char* kOrtVersion = "1.31.1";

const char* get_build_info_string() noexcept { return "Tessera, compatible with ONNX Runtime 1.31.1"; }

// A table none of whose functions is there: each says so when called.
template <class Table>
const Table* absent_table() noexcept {
  return &not_implemented_table<Table>;
}

// What this library offers beside the table, by name; null for any other name.
OrtExperimentalFnPtr get_experimental_function(const char* name) noexcept {
  if (!name || std::strcmp(name, "TesseraGetApi") != 0) return nullptr;
  return reinterpret_cast<OrtExperimentalFnPtr>(&TesseraGetApi);
}

// Every slot starts as a stand-in that names itself; the topics write over what they have. GetTrainingApi gives null,
// as in a library without training.
OrtApi make_api() {
  OrtApi api = not_implemented_table<OrtApi>;
  api.CreateStatus = create_status;
  api.GetErrorCode = get_error_code;
  api.GetErrorMessage = get_error_message;
  api.ReleaseStatus = release_status;
  api.GetBuildInfoString = get_build_info_string;
  api.GetExperimentalFunction = get_experimental_function;
  api.GetModelEditorApi = model_editor_api;
  api.GetCompileApi = compile_api;
  api.GetInteropApi = absent_table<OrtInteropApi>;
  api.GetModelPackageApi = absent_table<OrtModelPackageApi>;
  api.GetEpApi = absent_table<OrtEpApi>;
  fill_allocator(api);
  fill_arena(api);
  fill_assignment(api);
  fill_binding(api);
  fill_container(api);
  fill_custom_op(api);
  fill_device(api);
  fill_env(api);
  fill_graph(api);
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
  fill_sparse(api);
  fill_string_tensor(api);
  fill_threads(api);
  fill_type_info(api);
  fill_value(api);
  return api;
}

const OrtApi* get_api(uint32_t version) noexcept {
  if (version >= 1 && version <= ORT_API_VERSION) {
    static const OrtApi api = make_api();
    return &api;
  }
  std::fprintf(stderr,
               "OrtApiBase::GetApi: API version %u is not available; this library serves versions 1 to %d (%s)\n",
               static_cast<unsigned>(version), ORT_API_VERSION, kOrtVersion);
  return nullptr;
}

const char* get_version_string() noexcept { return kOrtVersion; }

constexpr OrtApiBase kApiBase = {.GetApi = get_api, .GetVersionString = get_version_string};

}  // namespace
}  // namespace tessera::capi

const OrtApiBase* ORT_API_CALL OrtGetApiBase(void) noexcept { return &tessera::capi::kApiBase; }
