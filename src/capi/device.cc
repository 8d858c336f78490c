// What can compute: one device, the CPU, with one provider.
#include <algorithm>
#include <cstring>

#include "capi/allocator.h"
#include "capi/env.h"
#include "capi/guard.h"
#include "capi/key_values.h"
#include "capi/options.h"
#include "capi/session.h"
#include "capi/topics.h"
#include "capi/value.h"

struct OrtHardwareDevice {
  OrtHardwareDeviceType type = OrtHardwareDeviceType_CPU;
  uint32_t vendor_id = 0, device_id = 0;
  std::string vendor;
  OrtKeyValuePairs metadata;
};

struct OrtEpDevice {
  std::string name, vendor;
  OrtKeyValuePairs metadata, options;
  const OrtHardwareDevice* device = nullptr;
};

struct OrtDeviceEpIncompatibilityDetails {
  uint32_t reasons = OrtDeviceEpIncompatibility_NONE;
  std::string notes;
};

namespace tessera::capi {
namespace {

constexpr char kProvider[] = "CPUExecutionProvider";

// Both live as long as the process.
const OrtHardwareDevice* cpu() {
  static const auto* const device = new OrtHardwareDevice;
  return device;
}
const OrtEpDevice* cpu_provider() {
  static const auto* const device = new OrtEpDevice{kProvider, "Tessera", {}, {}, cpu()};
  return device;
}

Status ep_devices(const OrtEnv* env, const OrtEpDevice* const** out, size_t* count) {
  TRY(not_null({{"env", env}, {"ep_devices", out}, {"num_ep_devices", count}}));
  static const OrtEpDevice* const list[] = {cpu_provider()};
  *out = list;
  *count = std::size(list);
  return {};
}

Status hardware_count(const OrtEnv* env, size_t* out) {
  TRY(not_null({{"env", env}, {"num_devices", out}}));
  *out = 1;
  return {};
}

Status hardware_devices(const OrtEnv* env, const OrtHardwareDevice** out, size_t room) {
  TRY(not_null({{"env", env}, {"devices", out}}));
  if (room < 1) return invalid("room for {} devices, there is 1", room);
  out[0] = cpu();
  return {};
}

// A getter that has no way to report: null or zero for a null handle.
template <auto Member, class Handle>
auto number_of(const Handle* handle) noexcept {
  return handle ? handle->*Member : std::remove_cvref_t<decltype(handle->*Member)>{};
}
template <auto Member, class Handle>
const char* text_of(const Handle* handle) noexcept {
  return handle ? (handle->*Member).c_str() : nullptr;
}
template <auto Member, class Handle>
const OrtKeyValuePairs* pairs_of(const Handle* handle) noexcept {
  return handle ? &(handle->*Member) : nullptr;
}

const OrtMemoryInfo* memory_of(const OrtEpDevice* device, OrtDeviceMemoryType) noexcept {
  return device ? &cpu_memory_info() : nullptr;
}

Status append(OrtSessionOptions* options, OrtEnv* env, const OrtEpDevice* const* devices, size_t count,
              const char* const* keys, const char* const* values, size_t option_count) {
  TRY(not_null({{"session_options", options}, {"env", env}, {"ep_devices", devices}}));
  if (count == 0) return invalid("no device was given, wanted at least 1");
  if (option_count) TRY(not_null({{"ep_option_keys", keys}, {"ep_option_vals", values}}));
  for (size_t i = 0; i < count; ++i)
    if (devices[i] != cpu_provider()) return invalid("device {} is none of those GetEpDevices lists", i);
  return {};
}

// Whatever is preferred, there is one choice.
Status set_policy(OrtSessionOptions* options, OrtExecutionProviderDevicePolicy) {
  return not_null({{"session_options", options}});
}
Status set_policy_delegate(OrtSessionOptions* options, EpSelectionDelegate, void*) {
  return not_null({{"session_options", options}});
}

Status register_library(OrtEnv* env, const char* name, const ORTCHAR_T* path) {
  TRY(not_null({{"env", env}, {"registration_name", name}, {"path", path}}));
  return not_implemented(
      "execution provider library {}: this library computes on the CPU only; operators of your own can be added with "
      "RegisterCustomOpsLibrary",
      quote(path));
}
Status unregister_library(OrtEnv* env, const char* name) {
  TRY(not_null({{"env", env}, {"registration_name", name}}));
  return invalid("no execution provider library is registered as {}", quote(name));
}

// Hints for devices: the CPU needs none, so every key is taken.
Status dynamic_options(OrtSession* session, const char* const* keys, const char* const* values, size_t count) {
  TRY(not_null({{"sess", session}}));
  if (count == 0) return invalid("no option was given, wanted at least 1");
  TRY(not_null({{"keys", keys}, {"values", values}}));
  for (size_t i = 0; i < count; ++i) TRY(check_config_entry(keys[i], values[i]));
  return {};
}

using Specs = const std::vector<ValueSpec>& (*)(const OrtSession&);
template <Specs specs>
Status devices_of(const OrtSession* session, const OrtEpDevice** out, size_t room) {
  TRY(not_null({{"session", session}, {"the list", out}}));
  const size_t n = specs(*session).size();
  if (room != n) return invalid("room for {} devices, there are {}", room, n);
  std::fill_n(out, n, cpu_provider());
  return {};
}

Status incompatibility(const OrtEnv* env, const char* name, const OrtHardwareDevice* device,
                       OrtDeviceEpIncompatibilityDetails** out) {
  TRY(not_null({{"env", env}, {"ep_name", name}, {"hw", device}, {"details", out}}));
  if (std::strcmp(name, kProvider) != 0) return invalid("provider {} is not in this build", quote(name));
  *out = new OrtDeviceEpIncompatibilityDetails;
  return {};
}
void release_details(OrtDeviceEpIncompatibilityDetails* details) { delete details; }
Status reasons(const OrtDeviceEpIncompatibilityDetails* details, uint32_t* out) {
  TRY(not_null({{"details", details}, {"reasons_bitmask", out}}));
  *out = details->reasons;
  return {};
}
Status notes(const OrtDeviceEpIncompatibilityDetails* details, const char** out) {
  TRY(not_null({{"details", details}, {"notes", out}}));
  *out = details->notes.c_str();
  return {};
}
Status error_code(const OrtDeviceEpIncompatibilityDetails* details, int32_t* out) {
  TRY(not_null({{"details", details}, {"error_code", out}}));
  *out = 0;
  return {};
}

// Models hold nothing that was compiled for a device.
Status compatibility(const OrtEpDevice* const* devices, size_t count, const char* info,
                     OrtCompiledModelCompatibility* out) {
  TRY(not_null({{"ep_devices", devices}, {"compatibility_info", info}, {"out_status", out}}));
  if (count == 0) return invalid("no device was given, wanted at least 1");
  *out = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  return {};
}

// A stream of a device that works at once: null stands for it.
Status create_stream(const OrtEpDevice* device, const OrtKeyValuePairs*, OrtSyncStream** out) {
  TRY(not_null({{"ep_device", device}, {"stream", out}}));
  return not_implemented("the CPU has no streams; pass null where a stream is asked for");
}

Status copy_tensors(const OrtEnv* env, const OrtValue* const* from, OrtValue* const* to, OrtSyncStream*, size_t count) {
  TRY(not_null({{"env", env}, {"src_tensors", from}, {"dst_tensors", to}}));
  for (size_t i = 0; i < count; ++i) {
    TRY(not_null({{"a source", from[i]}, {"a destination", to[i]}}));
    TRY_ASSIGN(source, tensor_in(from[i]));
    TRY_ASSIGN(target, tensor_in(to[i]));
    if (source->dtype() != target->dtype() || !(source->shape() == target->shape()))
      return invalid("tensor {}: {} cannot be copied over {}", i, from[i]->value.describe(), to[i]->value.describe());
  }
  for (size_t i = 0; i < count; ++i) copy_elements(*from[i]->value.tensor(), *to[i]->value.tensor());
  return {};
}

// No graph is ever captured.
Status release_captured(OrtSession* session, int) { return not_null({{"session", session}}); }

// Used with nodes that hold what another device compiled, which no model for a CPU has.
Status set_context_reader(OrtSessionOptions* options, OrtReadNamedBufferFunc, void*) {
  return not_null({{"options", options}});
}
Status set_source_model(OrtSessionOptions* options, const void* data, size_t) {
  return not_null({{"options", options}, {"source_model_data", data}});
}

// One device: number 0.
Status set_current_device(int id) {
  if (id != 0) return invalid("device {} is not there; this library has the CPU, device 0", id);
  return {};
}
Status current_device(int* out) {
  TRY(not_null({{"device_id", out}}));
  *out = 0;
  return {};
}

template <class... A>
OrtStatus* refuse_provider(A...) noexcept {
  return make_status(ORT_NOT_IMPLEMENTED,
                     "this library computes on the CPU only; leave the provider out, or append CPUExecutionProvider");
}
template <class... A, bool kind>
void refuse(OrtStatus* (*&slot)(A...) noexcept(kind)) {
  slot = refuse_provider<A...>;
}

}  // namespace

void fill_device(OrtApi& api) {
  refuse(api.SessionOptionsAppendExecutionProvider_CUDA);
  refuse(api.SessionOptionsAppendExecutionProvider_CUDA_V2);
  refuse(api.SessionOptionsAppendExecutionProvider_ROCM);
  refuse(api.SessionOptionsAppendExecutionProvider_OpenVINO);
  refuse(api.SessionOptionsAppendExecutionProvider_OpenVINO_V2);
  refuse(api.SessionOptionsAppendExecutionProvider_TensorRT);
  refuse(api.SessionOptionsAppendExecutionProvider_TensorRT_V2);
  refuse(api.SessionOptionsAppendExecutionProvider_MIGraphX);
  refuse(api.SessionOptionsAppendExecutionProvider_CANN);
  refuse(api.SessionOptionsAppendExecutionProvider_Dnnl);
  refuse(api.SessionOptionsAppendExecutionProvider_VitisAI);
  refuse(api.CreateCUDAProviderOptions);
  refuse(api.CreateTensorRTProviderOptions);
  refuse(api.CreateCANNProviderOptions);
  refuse(api.CreateDnnlProviderOptions);
  refuse(api.CreateROCMProviderOptions);
  api.GetEpDevices = slot<ep_devices>;
  api.GetNumHardwareDevices = slot<hardware_count>;
  api.GetHardwareDevices = slot<hardware_devices>;
  api.HardwareDevice_Type = number_of<&OrtHardwareDevice::type, OrtHardwareDevice>;
  api.HardwareDevice_VendorId = number_of<&OrtHardwareDevice::vendor_id, OrtHardwareDevice>;
  api.HardwareDevice_Vendor = text_of<&OrtHardwareDevice::vendor, OrtHardwareDevice>;
  api.HardwareDevice_DeviceId = number_of<&OrtHardwareDevice::device_id, OrtHardwareDevice>;
  api.HardwareDevice_Metadata = pairs_of<&OrtHardwareDevice::metadata, OrtHardwareDevice>;
  api.EpDevice_EpName = text_of<&OrtEpDevice::name, OrtEpDevice>;
  api.EpDevice_EpVendor = text_of<&OrtEpDevice::vendor, OrtEpDevice>;
  api.EpDevice_EpMetadata = pairs_of<&OrtEpDevice::metadata, OrtEpDevice>;
  api.EpDevice_EpOptions = pairs_of<&OrtEpDevice::options, OrtEpDevice>;
  api.EpDevice_Device = number_of<&OrtEpDevice::device, OrtEpDevice>;
  api.EpDevice_MemoryInfo = memory_of;
  api.SessionOptionsAppendExecutionProvider_V2 = slot<append>;
  api.SessionOptionsSetEpSelectionPolicy = slot<set_policy>;
  api.SessionOptionsSetEpSelectionPolicyDelegate = slot<set_policy_delegate>;
  api.RegisterExecutionProviderLibrary = slot<register_library>;
  api.UnregisterExecutionProviderLibrary = slot<unregister_library>;
  api.SetEpDynamicOptions = slot<dynamic_options>;
  api.SessionGetEpDeviceForInputs = slot<devices_of<inputs_of>>;
  api.SessionGetEpDeviceForOutputs = slot<devices_of<outputs_of>>;
  api.GetHardwareDeviceEpIncompatibilityDetails = slot<incompatibility>;
  api.DeviceEpIncompatibilityDetails_GetReasonsBitmask = slot<reasons>;
  api.DeviceEpIncompatibilityDetails_GetNotes = slot<notes>;
  api.DeviceEpIncompatibilityDetails_GetErrorCode = slot<error_code>;
  api.ReleaseDeviceEpIncompatibilityDetails = release_details;
  api.GetModelCompatibilityForEpDevices = slot<compatibility>;
  api.CreateSyncStreamForEpDevice = slot<create_stream>;
  api.CopyTensors = slot<copy_tensors>;
  api.SessionReleaseCapturedGraph = slot<release_captured>;
  api.SessionOptionsSetEpContextDataReadFunc = slot<set_context_reader>;
  api.SessionOptionsSetWeightlessSourceModelBuffer = slot<set_source_model>;
  api.SetCurrentGpuDeviceId = slot<set_current_device>;
  api.GetCurrentGpuDeviceId = slot<current_device>;
}

}  // namespace tessera::capi
