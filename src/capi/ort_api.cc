// The table of the C ABI and the one symbol that leads to it.
#include <cstdio>
#include <cstring>

#include "capi/status.h"
#include "capi/topics.h"
#include "tessera/c_api.h"
#include "tessera/extension.h"

namespace tessera::capi {
namespace {

constexpr const char* kOrtVersion = "1.31.1";

const char* get_build_info_string() noexcept { return "Tessera, compatible with ONNX Runtime 1.31.1"; }

// What this library offers beside the table, by name; null for any other name.
OrtExperimentalFnPtr get_experimental_function(const char* name) noexcept {
  if (!name || std::strcmp(name, "TesseraGetApi") != 0) return nullptr;
  return reinterpret_cast<OrtExperimentalFnPtr>(&TesseraGetApi);
}

// Every slot starts as a stand-in; the topics write over what they have. GetTrainingApi gives null,
// as in a library without training, and so do tables that no topic offers.
OrtApi make_api() {
  OrtApi api = stand_ins();
  api.CreateStatus = create_status;
  api.GetErrorCode = get_error_code;
  api.GetErrorMessage = get_error_message;
  api.ReleaseStatus = release_status;
  api.GetBuildInfoString = get_build_info_string;
  api.GetExperimentalFunction = get_experimental_function;
  fill_topics(api);
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
