#include "runtime/pack_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/file.h"
#include "runtime/pack_format.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little);

// Reads the names after the table.
class Names {
 public:
  explicit Names(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  bool number(T* out) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(out, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  bool text(size_t length, std::string* out) {
    if (rest_.size() < length) return false;
    out->assign(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

Status damaged(std::string_view what) {
  return error(Code::fail, "the pack file is damaged: {}; make it again with `tessera pack`", what);
}

Status check_entries(std::span<const PackEntry> entries, uint64_t blobs_end, uint64_t files) {
  uint64_t end = sizeof(PackHeader);
  for (size_t i = 0; i < entries.size(); ++i) {
    const PackEntry& e = entries[i];
    if (i && !(entries[i - 1].key < e.key)) return damaged("its entries are not in order");
    if (e.offset < end || e.offset % kAlignment || e.offset > blobs_end || e.length > blobs_end - e.offset)
      return damaged(format("entry {} lies outside the file", i));
    if (e.file != kNoFile && e.file >= files) return damaged(format("entry {} names a file that is not listed", i));
    end = e.offset + e.length;
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const PackFile>> PackFile::read(BytesPtr bytes) {
  const size_t size = bytes->size();
  PackHeader header;
  PackFooter footer;
  if (size < sizeof header + sizeof footer) return damaged("it is too short");
  // What lies around these few pages is read when a run wants it.
  expect({bytes, 0, sizeof header}, Reading::alone);
  expect({bytes, size - sizeof footer, sizeof footer}, Reading::alone);
  std::memcpy(&header, bytes->data(), sizeof header);
  std::memcpy(&footer, bytes->data() + size - sizeof footer, sizeof footer);
  if (std::memcmp(header.magic, kPackMagic, sizeof kPackMagic) != 0)
    return error(Code::fail, "this is not a file of packed weights");
  if (header.version != kPackVersion || header.byte_order != kPackByteOrder)
    return error(Code::fail, "the pack file has version {}, wanted {}", header.version, kPackVersion);
  const uint64_t table_end = size - sizeof footer;
  if (std::memcmp(footer.magic, kPackMagic, sizeof kPackMagic) != 0 || footer.file_size != size)
    return damaged("it was cut off or grown");
  if (footer.footer_checksum != checksum_of(&footer, offsetof(PackFooter, footer_checksum)) ||
      footer.header_checksum != checksum_of(&header, sizeof header))
    return damaged("its checksum is wrong");
  if (footer.table_offset < sizeof header || footer.table_offset > table_end ||
      footer.entry_count > (table_end - footer.table_offset) / sizeof(PackEntry))
    return damaged("its table lies outside the file");
  const std::span<const std::byte> table{bytes->data() + footer.table_offset,
                                         static_cast<size_t>(table_end - footer.table_offset)};
  expect({bytes, footer.table_offset, table.size()}, Reading::alone);
  if (footer.table_checksum != checksum_of(table.data(), table.size()))
    return damaged("the checksum of its table is wrong");
  auto out = std::make_shared<PackFile>();
  const auto count = static_cast<size_t>(footer.entry_count);
  out->entries_.resize(count);
  if (count) std::memcpy(out->entries_.data(), table.data(), count * sizeof(PackEntry));
  Names names(table.subspan(count * sizeof(PackEntry)));
  while (!names.at_end()) {
    PackSourceFile f;
    uint64_t length = 0;
    if (!names.number(&f.size) || !names.number(&f.written_at) || !names.number(&length) ||
        !names.text(static_cast<size_t>(length), &f.name))
      return damaged("a name in its table is cut off");
    out->files_.push_back(std::move(f));
  }
  TRY(check_entries(out->entries_, footer.table_offset, out->files_.size()));
  out->bytes_ = std::move(bytes);
  return std::shared_ptr<const PackFile>(std::move(out));
}

Digest source_digest(const PackWeights& weights) {
  std::vector<Digest> parts;
  for (const Weight& w : weights)
    if (w.range.source) parts.push_back(digest_of(w.range.data(), w.range.length));
  return digest_of(parts.data(), parts.size() * sizeof(Digest));
}

PackFile::Match PackFile::find(const Digest& key, const PackWeights& weights, ByteRange* out) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [](const PackEntry& e, const Digest& k) { return e.key < k; });
  if (it == entries_.end() || it->key != key) return Match::missing;
  const auto is_trusted = [&](const Weight& weight) {
    const Bytes* source = weight.range.source.get();
    if (!source || !weight.checksum.empty()) return true;  // the key says what the bytes are
    return it->file != kNoFile && source->written_at() != 0 &&
           files_[it->file] == PackSourceFile{weight.location, source->size(), source->written_at()};
  };
  if (!std::all_of(weights.begin(), weights.end(), is_trusted) && source_digest(weights) != it->source)
    return Match::stale;
  *out = {bytes_, it->offset, it->length};
  return Match::good;
}

Status PackFile::verify() const {
  for (size_t i = 0; i < entries_.size(); ++i)
    if (checksum_of(bytes_->data() + entries_[i].offset, entries_[i].length) != entries_[i].checksum)
      return damaged(format("packed weight {} of {} does not have its checksum", i + 1, entries_.size()));
  return {};
}

}  // namespace tessera
