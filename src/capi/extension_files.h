// External data through the extension table: memory with a release function, reading piece by piece, open files.
#pragma once
#include "base/status.h"
#include "tessera/extension.h"

namespace tessera::capi {

Status add_external_file(OrtSessionOptions* options, const ORTCHAR_T* name, const void* data, size_t size,
                         TesseraReleaseFn release, void* context);
Status add_external_reader(OrtSessionOptions* options, const ORTCHAR_T* name, uint64_t size, TesseraReadFn read,
                           TesseraReleaseFn release, void* context);
Status add_external_descriptor(OrtSessionOptions* options, const ORTCHAR_T* name, int fd, uint64_t offset,
                               uint64_t size);

}  // namespace tessera::capi
