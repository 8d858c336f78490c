// What a session is made of and where its time goes, through the extension table.
#pragma once
#include "base/status.h"
#include "tessera/extension.h"

namespace tessera::capi {

Status nodes(const OrtSession* session, OrtAllocator* allocator, char** json);
Status run_timed(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                 const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                 size_t output_count, OrtValue** outputs, OrtAllocator* allocator, char** json);

}  // namespace tessera::capi
