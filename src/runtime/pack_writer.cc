#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/file.h"
#include "runtime/pack_file.h"
#include "runtime/pack_format.h"

namespace tessera {
namespace {

// A file written front to back, with zeros up to where the next part begins.
class Writer {
 public:
  explicit Writer(AtomicFile& file) : file_(file) {}

  Status write(const void* data, size_t size) {
    at_ += size;
    return file_.write(data, size);
  }
  Status pad_to(uint64_t offset) {
    static constexpr char kZeros[kPackPage] = {};
    while (at_ < offset) TRY(write(kZeros, static_cast<size_t>(std::min<uint64_t>(offset - at_, kPackPage))));
    return {};
  }
  uint64_t at() const { return at_; }

 private:
  AtomicFile& file_;
  uint64_t at_ = 0;
};

uint64_t begin_of(uint64_t at, uint64_t length) {
  return static_cast<uint64_t>(
      round_up(static_cast<int64_t>(at), static_cast<int64_t>(length >= kPackPage ? kPackPage : kAlignment)));
}

// The index of the file that the weights came from, if it is one and the same.
uint64_t file_of(const PackWeights& weights, std::vector<PackSourceFile>& files) {
  std::optional<PackSourceFile> file;
  for (const Weight& w : weights) {
    const Bytes* source = w.range.source.get();
    if (!source) continue;
    PackSourceFile own{w.location, source->size(), source->written_at()};
    if (own.written_at == 0 || (file && *file != own)) return kNoFile;
    file = std::move(own);
  }
  if (!file) return kNoFile;
  const auto it = std::find(files.begin(), files.end(), *file);
  if (it != files.end()) return static_cast<uint64_t>(it - files.begin());
  files.push_back(*std::move(file));
  return files.size() - 1;
}

void append(std::string& table, const void* data, size_t size) { table.append(static_cast<const char*>(data), size); }

std::string table_of(std::span<const PackEntry> entries, std::span<const PackSourceFile> files) {
  std::string table;
  for (const PackEntry& e : entries) append(table, &e, sizeof e);
  for (const PackSourceFile& f : files) {
    const uint64_t length = f.name.size();
    append(table, &f.size, sizeof f.size);
    append(table, &f.written_at, sizeof f.written_at);
    append(table, &length, sizeof length);
    table += f.name;
  }
  return table;
}

}  // namespace

Status write_pack_file(const std::string& path, std::vector<PackItem> items, bool record_files,
                       const std::atomic<bool>* cancel) {
  std::stable_sort(items.begin(), items.end(), [](const PackItem& a, const PackItem& b) { return a.key < b.key; });
  items.erase(
      std::unique(items.begin(), items.end(), [](const PackItem& a, const PackItem& b) { return a.key == b.key; }),
      items.end());
  TRY_ASSIGN(file, AtomicFile::create(path, cancel));
  Writer out(*file);
  PackHeader header{};
  std::memcpy(header.magic, kPackMagic, sizeof kPackMagic);
  header.version = kPackVersion;
  header.byte_order = kPackByteOrder;
  TRY(out.write(&header, sizeof header));
  std::vector<PackEntry> entries;
  std::vector<PackSourceFile> files;
  for (PackItem& item : items) {
    TRY_ASSIGN(bytes, item.bytes());
    PackEntry e;
    e.key = item.key;
    e.offset = begin_of(out.at(), bytes.length);
    e.length = bytes.length;
    e.checksum = checksum_of(bytes.data(), bytes.length);
    e.file = record_files ? file_of(item.weights, files) : kNoFile;
    e.source = item.source ? *item.source : source_digest(item.weights);
    for (const Weight& w : item.weights) drop_pages(w.range);
    TRY(out.pad_to(e.offset));
    TRY(out.write(bytes.data(), bytes.length));
    entries.push_back(e);
  }
  TRY(out.pad_to(begin_of(out.at(), 0)));
  const std::string table = table_of(entries, files);
  PackFooter footer{};
  footer.table_offset = out.at();
  footer.entry_count = entries.size();
  footer.table_checksum = checksum_of(table.data(), table.size());
  footer.header_checksum = checksum_of(&header, sizeof header);
  footer.file_size = out.at() + table.size() + sizeof footer;
  std::memcpy(footer.magic, kPackMagic, sizeof kPackMagic);
  footer.footer_checksum = checksum_of(&footer, offsetof(PackFooter, footer_checksum));
  TRY(out.write(table.data(), table.size()));
  TRY(out.write(&footer, sizeof footer));
  return file->finish();
}

}  // namespace tessera
