// OrtStatus: the errors of the C ABI, made from and turned back into tessera::Status.
#pragma once
#include <string_view>

#include "base/status.h"
#include "tessera/c_api.h"

namespace tessera::capi {

// A new status. Never throws and never returns null: when memory is short, the result is a shared status that says so.
OrtStatus* make_status(OrtErrorCode code, std::string_view message) noexcept;

// Null if `status` is ok.
OrtStatus* to_ort(const Status& status) noexcept;

// The status for an exception that says `what`; null: memory ran out.
OrtStatus* status_of_exception(const char* what) noexcept;

// Releases what a callback of the client returned and gives it as a Status; null is ok.
Status from_ort(OrtStatus* status);

// The slots of OrtApi. A null status is ok: code ORT_OK, empty message, nothing to release.
OrtStatus* create_status(OrtErrorCode code, const char* message) noexcept;
OrtErrorCode get_error_code(const OrtStatus* status) noexcept;
const char* get_error_message(const OrtStatus* status) noexcept;
void release_status(OrtStatus* status) noexcept;

}  // namespace tessera::capi
