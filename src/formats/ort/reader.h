// Reads ONNX Runtime's model format (.ort) into a Model without copying weights: they stay ranges of the file's bytes.
#pragma once
#include <string_view>

#include "formats/external.h"
#include "formats/ort/kernel_types.h"
#include "ir/graph.h"

namespace tessera::ort {

// By content: the file's identifier.
bool is_ort_model(const Bytes& bytes);

// The model keeps `bytes` alive. Any bytes may be given; what is not a model comes back as a status. Symbols of `dims`
// that were fixed become those numbers. With `standard`, what the file says of operators is compared with it. Saved
// runtime optimizations are not applied: they say how, not what to compute.
Result<Model> read_model(BytesPtr bytes, ExternalData& external,
                         std::shared_ptr<DimPool> dims = std::make_shared<DimPool>(),
                         KernelTypesOf* standard = nullptr);

// How many rewrites the main graph of a file proposes for the time of loading.
int64_t saved_optimizations(const Bytes& bytes);

}  // namespace tessera::ort
