#include "capi/key_values.h"

#include "capi/guard.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

// These functions cannot report; when memory is short they leave things as they were.
template <class F>
void quietly(F&& change) noexcept {
  release_status(guarded([&]() -> Status {
    change();
    return {};
  }));
}

void create(OrtKeyValuePairs** out) {
  if (!out) return;
  *out = nullptr;
  quietly([&] { *out = new OrtKeyValuePairs; });
}

void add(OrtKeyValuePairs* pairs, const char* key, const char* value) {
  if (!pairs || !key || !*key || !value) return;
  quietly([&] {
    pairs->entries[key] = value;
    pairs->refresh();
  });
}

const char* get(const OrtKeyValuePairs* pairs, const char* key) {
  const char* found = nullptr;
  if (pairs && key)
    quietly([&] {
      const auto it = pairs->entries.find(key);
      if (it != pairs->entries.end()) found = it->second.c_str();
    });
  return found;
}

void get_all(const OrtKeyValuePairs* pairs, const char* const** keys, const char* const** values, size_t* count) {
  if (keys) *keys = pairs ? pairs->keys.data() : nullptr;
  if (values) *values = pairs ? pairs->values.data() : nullptr;
  if (count) *count = pairs ? pairs->keys.size() : 0;
}

void remove(OrtKeyValuePairs* pairs, const char* key) {
  if (!pairs || !key) return;
  quietly([&] {
    pairs->entries.erase(key);
    pairs->refresh();
  });
}

void release(OrtKeyValuePairs* pairs) { delete pairs; }

}  // namespace

void fill_key_values(OrtApi& api) {
  api.CreateKeyValuePairs = create;
  api.AddKeyValuePair = add;
  api.GetKeyValue = get;
  api.GetKeyValuePairs = get_all;
  api.RemoveKeyValuePair = remove;
  api.ReleaseKeyValuePairs = release;
}

}  // namespace tessera::capi
