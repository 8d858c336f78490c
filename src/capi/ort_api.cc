// The table of the C ABI and the one symbol that leads to it.
#include <cstdio>

#include "capi/not_implemented.h"
#include "capi/status.h"
#include "tessera/c_api.h"

namespace tessera::capi {
namespace {

constexpr const char* kOrtVersion = "1.31.1";

const char* get_build_info_string() noexcept { return "Tessera, compatible with ONNX Runtime 1.31.1"; }

// A table none of whose functions is there: each says so when called.
template <class Table>
const Table* absent_table() noexcept {
  return &not_implemented_table<Table>;
}

// Every slot starts as a stand-in that names itself. A function becomes reachable by a line here, in the group of the
// header that declares it. GetTrainingApi gives null, as in a library without training.
constexpr OrtApi make_api() {
  OrtApi api = not_implemented_table<OrtApi>;

  // status.h
  api.CreateStatus = create_status;
  api.GetErrorCode = get_error_code;
  api.GetErrorMessage = get_error_message;
  api.ReleaseStatus = release_status;

  // This file.
  api.GetBuildInfoString = get_build_info_string;
  api.GetModelEditorApi = absent_table<OrtModelEditorApi>;
  api.GetCompileApi = absent_table<OrtCompileApi>;
  api.GetInteropApi = absent_table<OrtInteropApi>;
  api.GetModelPackageApi = absent_table<OrtModelPackageApi>;
  api.GetEpApi = absent_table<OrtEpApi>;
  return api;
}

constexpr OrtApi kApi = make_api();

const OrtApi* get_api(uint32_t version) noexcept {
  if (version >= 1 && version <= ORT_API_VERSION) return &kApi;
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
