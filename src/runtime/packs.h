// Packed weights: found by what they are made of, never by packing first. One process packs one weight once: sessions
// and subgraphs share what is there, and a pack file beside the model spares even that.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/digest.h"
#include "core/weight.h"

namespace tessera {

// What the packed bytes depend on beside the bytes of the weights.
struct PackForm {
  std::string layout;
  int64_t variant = 0;
  DType dtype = DType::undefined;  // the first weight is packed as this
};

// The weights that one packed weight is made of, absent ones without a type.
using PackWeights = std::vector<Weight>;

// Names a packed weight on every machine: its form, and where its model says the weights are. A weight whose bytes are
// in no file is named by its content.
Digest pack_key(const PackForm& form, const PackWeights& weights);

// One packed weight of this process.
class PackedWeight {
 public:
  using Make = std::function<Result<std::shared_ptr<Bytes>>()>;
  // The bytes, made or found at the first call. Any thread.
  Result<const std::byte*> get(const Make& make, Counters& counters);
  // What was found in a pack file.
  void found(ByteRange bytes);
  // Where the bytes are, if they are there.
  std::optional<ByteRange> bytes() const;

 private:
  mutable std::mutex mutex_;
  ByteRange bytes_;
  bool ready_ = false;
};

// The packed form of weights, shared with every session of this process that packs the same bytes in the same form.
std::shared_ptr<PackedWeight> share_packed(const PackForm& form, const PackWeights& weights, bool* known);

}  // namespace tessera
