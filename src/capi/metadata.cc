#include "capi/metadata.h"

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/session.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

Status get(const OrtSession* session, OrtModelMetadata** out) {
  TRY(not_null({{"session", session}, {"out", out}}));
  const Model& m = model_of(*session);
  *out = new OrtModelMetadata{m.producer_name, m.graph->name(), m.domain,  m.doc,
                              m.graph->doc(),  m.model_version, m.metadata};
  return {};
}

void release(OrtModelMetadata* metadata) { delete metadata; }

template <auto Member>
Status text(const OrtModelMetadata* metadata, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"model_metadata", metadata}, {"allocator", allocator}, {"value", out}}));
  return give_text(allocator, metadata->*Member, out);
}

Status version(const OrtModelMetadata* metadata, int64_t* out) {
  TRY(not_null({{"model_metadata", metadata}, {"value", out}}));
  *out = metadata->version;
  return {};
}

// Null if the model has no such key.
Status lookup(const OrtModelMetadata* metadata, OrtAllocator* allocator, const char* key, char** out) {
  TRY(not_null({{"model_metadata", metadata}, {"allocator", allocator}, {"key", key}, {"value", out}}));
  *out = nullptr;
  for (const auto& [k, v] : metadata->custom)
    if (k == key) return give_text(allocator, v, out);
  return {};
}

// The list and each key are freed by the client, one by one; no keys, no list.
Status keys(const OrtModelMetadata* metadata, OrtAllocator* allocator, char*** out, int64_t* count) {
  TRY(not_null({{"model_metadata", metadata}, {"allocator", allocator}, {"keys", out}, {"num_keys", count}}));
  const size_t n = metadata->custom.size();
  *out = nullptr;
  *count = 0;
  if (n == 0) return {};
  TRY_ASSIGN(memory, allocate_with(allocator, n * sizeof(char*)));
  char** list = static_cast<char**>(memory);
  for (size_t i = 0; i < n; ++i) {
    Status status = give_text(allocator, metadata->custom[i].first, &list[i]);
    if (status.ok()) continue;
    while (i-- > 0) allocator->Free(allocator, list[i]);
    allocator->Free(allocator, list);
    return status;
  }
  *out = list;
  *count = static_cast<int64_t>(n);
  return {};
}

}  // namespace

void fill_metadata(OrtApi& api) {
  api.SessionGetModelMetadata = slot<get>;
  api.ReleaseModelMetadata = release;
  api.ModelMetadataGetProducerName = slot<text<&OrtModelMetadata::producer>>;
  api.ModelMetadataGetGraphName = slot<text<&OrtModelMetadata::graph_name>>;
  api.ModelMetadataGetDomain = slot<text<&OrtModelMetadata::domain>>;
  api.ModelMetadataGetDescription = slot<text<&OrtModelMetadata::description>>;
  api.ModelMetadataGetGraphDescription = slot<text<&OrtModelMetadata::graph_description>>;
  api.ModelMetadataGetVersion = slot<version>;
  api.ModelMetadataLookupCustomMetadataMap = slot<lookup>;
  api.ModelMetadataGetCustomMetadataMapKeys = slot<keys>;
}

}  // namespace tessera::capi
