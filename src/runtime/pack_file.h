// A file of packed weights beside a model, mapped and used in place.
//
//   header   64 bytes    magic, version, byte order
//   blobs    each at a multiple of 64 bytes (of 4,096 when it is that long), in the order of their keys
//   table    one entry of 80 bytes per blob, ordered by key; then the files that the weights came from
//   footer   64 bytes    where the table is, its checksum, the size of the whole file
//
// Numbers are little-endian. The bytes depend on the weights alone: not on the machine, its CPU or its threads.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "runtime/packs.h"

namespace tessera {

struct PackEntry {
  Digest key;
  Digest source;  // of the weights' own bytes
  uint64_t offset = 0, length = 0;
  uint64_t checksum = 0;      // of the packed bytes
  uint64_t file = 0;          // index into the files, or kNoFile
  uint64_t reserved[2] = {};  // zero
};
static_assert(sizeof(PackEntry) == 80);

// A file that weights came from, as it was then.
struct PackSourceFile {
  std::string name;  // empty: the model itself
  uint64_t size = 0;
  int64_t written_at = 0;
  bool operator==(const PackSourceFile&) const = default;
};

inline constexpr uint64_t kNoFile = ~uint64_t{0};

class PackFile {
 public:
  // Checks everything but the blobs themselves. Any bytes may be given.
  static Result<std::shared_ptr<const PackFile>> read(BytesPtr bytes);

  enum class Match { missing, stale, good };
  // The packed bytes of weights that have this key. Good without reading them where the model states their checksums
  // or their file is as it was when they were packed; else after comparing digests.
  Match find(const Digest& key, const PackWeights& weights, ByteRange* out) const;
  // Compares every blob with its checksum.
  Status verify() const;
  std::span<const PackEntry> entries() const { return entries_; }

 private:
  BytesPtr bytes_;
  std::vector<PackEntry> entries_;
  std::vector<PackSourceFile> files_;
};

// What is to be written: known before anything is packed.
struct PackItem {
  Digest key;
  PackWeights weights;
  std::optional<Digest> source = {};  // of the weights, where they are gone and `weights` is empty
  // The packed bytes; called once, when it is their turn.
  std::function<Result<ByteRange>()> bytes;
};

// Of the content of those weights whose bytes are in files.
Digest source_digest(const PackWeights& weights);

// Writes a pack file atomically. Items of equal key are written once. Holds one packed weight at a time.
// Without `record_files`, the file says nothing of the files that the weights came from.
Status write_pack_file(const std::string& path, std::vector<PackItem> items, bool record_files = true,
                       const std::atomic<bool>* cancel = nullptr);

}  // namespace tessera
