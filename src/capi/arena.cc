// Arenas and allocators for all sessions of an environment. There is no arena, activations are planned: configurations
// can be made and are checked, registering is accepted for host memory, without effect on sessions.
#include <algorithm>
#include <cstring>

#include "capi/allocator.h"
#include "capi/env.h"
#include "capi/guard.h"
#include "capi/topics.h"

struct OrtArenaCfg {
  size_t max_mem = 0;
};

namespace tessera::capi {
namespace {

Status create_cfg(size_t max_mem, int, int, int, OrtArenaCfg** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtArenaCfg{max_mem};
  return {};
}

constexpr const char* kKeys[] = {"max_mem",
                                 "arena_extend_strategy",
                                 "initial_chunk_size_bytes",
                                 "max_dead_bytes_per_chunk",
                                 "initial_growth_chunk_size_bytes",
                                 "max_power_of_two_extend_bytes"};

Status create_cfg_v2(const char* const* keys, const size_t* values, size_t count, OrtArenaCfg** out) {
  TRY(not_null({{"out", out}}));
  if (count) TRY(not_null({{"arena_config_keys", keys}, {"arena_config_values", values}}));
  OrtArenaCfg made;
  for (size_t i = 0; i < count; ++i) {
    TRY(not_null({{"a key", keys[i]}}));
    const bool known =
        std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* k) { return !std::strcmp(k, keys[i]); });
    if (!known)
      return invalid("arena key {} is not known; the first of the known ones is {}", quote(keys[i]), kKeys[0]);
    if (std::strcmp(keys[i], kKeys[0]) == 0) made.max_mem = values[i];
  }
  *out = new OrtArenaCfg(made);
  return {};
}

void release_cfg(OrtArenaCfg* cfg) { delete cfg; }

Status on_host(const OrtMemoryInfo& info) {
  if (is_host_memory(info)) return {};
  return invalid("{} memory has no allocator here; this library computes in Cpu memory", quote(info.name));
}

Status create_and_register(OrtEnv* env, const OrtMemoryInfo* info, const OrtArenaCfg*) {
  TRY(not_null({{"env", env}, {"mem_info", info}}));
  return on_host(*info);
}

Status create_and_register_v2(OrtEnv* env, const char* provider, const OrtMemoryInfo* info, const OrtArenaCfg*,
                              const char* const* keys, const char* const* values, size_t count) {
  TRY(not_null({{"env", env}, {"provider_type", provider}, {"mem_info", info}}));
  if (count) TRY(not_null({{"provider_options_keys", keys}, {"provider_options_values", values}}));
  if (std::strcmp(provider, "CPUExecutionProvider") != 0)
    return invalid("provider {} is not in this build; it has CPUExecutionProvider", quote(provider));
  return on_host(*info);
}

Status register_allocator(OrtEnv* env, OrtAllocator* allocator) {
  TRY(not_null({{"env", env}, {"allocator", allocator}}));
  const OrtMemoryInfo* info = allocator->Info ? allocator->Info(allocator) : nullptr;
  TRY(not_null({{"the allocator's memory info", info}}));
  return on_host(*info);
}

Status unregister_allocator(OrtEnv* env, const OrtMemoryInfo* info) {
  TRY(not_null({{"env", env}, {"mem_info", info}}));
  return on_host(*info);
}

Status create_shared(OrtEnv* env, const OrtEpDevice* device, OrtDeviceMemoryType, OrtAllocatorType,
                     const OrtKeyValuePairs*, OrtAllocator** out) {
  TRY(not_null({{"env", env}, {"ep_device", device}}));
  if (out) *out = default_allocator();
  return {};
}

// Null where there is none.
Status get_shared(OrtEnv* env, const OrtMemoryInfo* info, OrtAllocator** out) {
  TRY(not_null({{"env", env}, {"mem_info", info}, {"allocator", out}}));
  *out = is_host_memory(*info) ? default_allocator() : nullptr;
  return {};
}

Status release_shared(OrtEnv* env, const OrtEpDevice* device, OrtDeviceMemoryType) {
  return not_null({{"env", env}, {"ep_device", device}});
}

}  // namespace

void fill_arena(OrtApi& api) {
  api.CreateArenaCfg = slot<create_cfg>;
  api.CreateArenaCfgV2 = slot<create_cfg_v2>;
  api.ReleaseArenaCfg = release_cfg;
  api.CreateAndRegisterAllocator = slot<create_and_register>;
  api.CreateAndRegisterAllocatorV2 = slot<create_and_register_v2>;
  api.RegisterAllocator = slot<register_allocator>;
  api.UnregisterAllocator = slot<unregister_allocator>;
  api.CreateSharedAllocator = slot<create_shared>;
  api.GetSharedAllocator = slot<get_shared>;
  api.ReleaseSharedAllocator = slot<release_shared>;
}

}  // namespace tessera::capi
