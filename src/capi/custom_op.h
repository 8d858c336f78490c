// Custom operators of the C ABI: OrtCustomOp structs of a client, grouped in domains.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/attempt.h"
#include "capi/kernel_info.h"
#include "capi/options.h"
#include "capi/status.h"
#include "session/options.h"
#include "tessera/c_api.h"

// The client's: it outlives the sessions that were made with it, and so do the operators in it.
struct OrtCustomOpDomain {
  std::string name;
  std::vector<const OrtCustomOp*> ops;
};

namespace tessera::capi {

// The custom operators of a session that is being made: those of its domains, and those of the extension table.
Result<CustomOps> custom_ops_of(const OrtSessionOptions& options, std::shared_ptr<const Logger> logger);

// Makes the operators of one name and domain, which differ in the types they take or in the versions they serve.
void add_callbacks(std::shared_ptr<const CustomSession> session, const std::string& domain,
                   std::span<const OrtCustomOp* const> ops, CustomOps& out);

// Turns what `fn` returns or throws into a Status. `fn` calls a client's function, which may be C++.
template <class F>
Status call_client(F&& fn) {
  Status out;
  attempt([&] { out = from_ort(fn()); }, [&](const char* what) { out = from_ort(status_of_exception(what)); });
  return out;
}

}  // namespace tessera::capi
