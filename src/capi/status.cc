#include "capi/status.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

// The text stands behind the struct in the same block of memory.
struct OrtStatus {
  OrtErrorCode code;
  const char* message;
};

namespace tessera::capi {
namespace {

constinit OrtStatus out_of_memory{ORT_RUNTIME_EXCEPTION, "out of memory"};

}  // namespace

OrtStatus* make_status(OrtErrorCode code, std::string_view message) noexcept {
  void* block = std::malloc(sizeof(OrtStatus) + message.size() + 1);
  if (!block) return &out_of_memory;
  char* text = static_cast<char*>(block) + sizeof(OrtStatus);
  std::memcpy(text, message.data(), message.size());
  text[message.size()] = '\0';
  return new (block) OrtStatus{code, text};
}

OrtStatus* to_ort(const Status& status) noexcept {
  if (status.ok()) return nullptr;
  return make_status(static_cast<OrtErrorCode>(status.code()), status.message());
}

OrtStatus* status_of_exception(const char* what) noexcept {
  return what ? make_status(ORT_RUNTIME_EXCEPTION, what) : &out_of_memory;
}

Status from_ort(OrtStatus* status) {
  const std::unique_ptr<OrtStatus, decltype(&release_status)> owned(status, release_status);
  if (get_error_code(status) == ORT_OK) return {};
  return {static_cast<Code>(status->code), status->message};
}

OrtStatus* create_status(OrtErrorCode code, const char* message) noexcept {
  return make_status(code, message ? message : "");
}

OrtErrorCode get_error_code(const OrtStatus* status) noexcept { return status ? status->code : ORT_OK; }

const char* get_error_message(const OrtStatus* status) noexcept { return status ? status->message : ""; }

void release_status(OrtStatus* status) noexcept {
  if (status != &out_of_memory) std::free(status);
}

}  // namespace tessera::capi
