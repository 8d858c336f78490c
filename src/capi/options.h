// OrtSessionOptions: SessionOptions, and what the C ABI keeps beside them.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "session/options.h"
#include "tessera/c_api.h"

namespace tessera::capi {

// Config keys of this library. With "1" the session uses the client's memory in place: it must outlive the session.
inline constexpr char kModelBytesInPlace[] = "session.use_ort_model_bytes_directly";
inline constexpr const char* kExternalBuffersInPlace[] = {"session.external_initializers_borrow",
                                                          "session.borrow_external_buffers"};

// A file of external data that the client hands over; looked at when a session is created.
struct ExternalBuffer {
  std::string name;
  const void* data = nullptr;  // of memory that may be gone after a session is created, unless borrowed
  size_t size = 0;
  BytesPtr kept = {};                                         // instead: memory that stays until it is released
  std::shared_ptr<const SessionOptions::Reader> reader = {};  // instead: read piece by piece
};

// Refuses an empty name and one that is there already.
Status add_external_buffer(OrtSessionOptions& options, ExternalBuffer buffer);

struct ExtensionOp;  // extension_op.h

// What the C ABI's config entries may look like, for sessions and for runs.
Status check_config_entry(const char* key, const char* value);

}  // namespace tessera::capi

struct OrtSessionOptions {
  tessera::SessionOptions options;
  std::vector<tessera::capi::ExternalBuffer> external_buffers;
  std::vector<const OrtCustomOpDomain*> custom_domains;  // the client's
  std::vector<std::shared_ptr<void>> custom_libraries;   // open ones
  std::vector<std::shared_ptr<const tessera::capi::ExtensionOp>> extension_ops;
  ExecutionMode execution_mode = ORT_SEQUENTIAL;
  bool mem_pattern = true;
  bool profiling = false;
  bool environment_threads = false;  // use the number of the environment
  int log_severity = -1;             // -1: that of the environment
  OrtLoggingFunction log_function = nullptr;
  void* log_parameter = nullptr;
  std::shared_ptr<std::atomic<bool>> cancel_load = std::make_shared<std::atomic<bool>>(false);  // not shared by clones

  bool is_set(const char* key) const {
    const auto it = options.config.find(key);
    return it != options.config.end() && it->second == "1";
  }
};
