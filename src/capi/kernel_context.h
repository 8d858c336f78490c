// OrtKernelContext: one call of a custom operator. Lives as long as the call.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "capi/kernel_info.h"
#include "capi/value.h"

struct OrtKernelContext {
  // `shaped`: the outputs have their shapes already. `out_types` are those that the operator gives, undefined where the
  // graph decides.
  OrtKernelContext(tessera::Call& call, const tessera::capi::CustomSession& session, bool shaped,
                   std::span<const tessera::DType> out_types)
      : call_(call), session_(session), shaped_(shaped), out_types_(out_types), outputs_(size_of(call.outputs())) {}

  // Makes the inputs; the first call.
  tessera::Status open();
  // Refuses outputs that nobody gave; the last call.
  tessera::Status close() const;

  tessera::Call& call() const { return call_; }
  const tessera::capi::CustomSession& session() const { return session_; }
  // Null for an absent one.
  const OrtValue* input(size_t index) const;
  // Gives an output its shape and memory; the same again for the same shape. Null for one nobody wants.
  tessera::Result<OrtValue*> output(size_t index, std::span<const int64_t> dims);
  // An output whose shape was known before; null for one nobody wants.
  tessera::Result<OrtValue*> shaped_output(size_t index);
  // Memory until the end of the call. Any thread.
  tessera::Result<void*> scratch(size_t size);

 private:
  static size_t size_of(int count) { return static_cast<size_t>(count); }
  tessera::Result<OrtValue*> show(size_t index);
  tessera::Result<tessera::DType> type_of_output(size_t index) const;

  tessera::Call& call_;
  const tessera::capi::CustomSession& session_;
  const bool shaped_;
  std::span<const tessera::DType> out_types_;
  std::vector<OrtValue> inputs_;                    // empty where absent
  std::vector<std::unique_ptr<OrtValue>> outputs_;  // null until given
  std::mutex mutex_;
  std::vector<std::shared_ptr<tessera::Bytes>> scratch_;
};
