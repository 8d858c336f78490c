#include <zlib.h>

#include <cstring>
#include <optional>

#include "common/npy.h"

namespace tessera::cli {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;

Status damaged(std::string_view what) { return invalid("the archive is damaged: {}", what); }

// A little-endian number at `at`; nothing outside the bytes.
template <class T>
std::optional<T> get(std::string_view bytes, uint64_t at) {
  T v{};
  if (!range_inside(at, sizeof v, bytes.size())) return {};
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

struct Member {
  std::string name;
  uint16_t method = 0, flags = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

// 64-bit fields of the extra data, in order, for the fields that are all ones.
void apply_zip64(std::string_view extra, Member& m) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = *get<uint16_t>(extra, at), length = *get<uint16_t>(extra, at + 2);
    size_t field = at + 4;
    if (id == 1)
      for (uint64_t* v : {&m.size, &m.packed, &m.offset})
        if (*v == UINT32_MAX)
          if (const auto wide = get<uint64_t>(extra.substr(0, std::min(extra.size(), at + 4 + length)), field)) {
            *v = *wide;
            field += 8;
          }
    at += 4 + size_t{length};
  }
}

Result<uint64_t> central_directory(std::string_view bytes, uint64_t* entries) {
  constexpr size_t kEndSize = 22, kLongestComment = 65535;
  if (bytes.size() < kEndSize) return invalid("this is no .npz archive");
  for (size_t back = kEndSize; back <= std::min(bytes.size(), kEndSize + kLongestComment); ++back) {
    const uint64_t at = bytes.size() - back;
    if (*get<uint32_t>(bytes, at) != kEnd) continue;
    *entries = *get<uint16_t>(bytes, at + 10);
    uint64_t offset = *get<uint32_t>(bytes, at + 16);
    if (at >= 20 && get<uint32_t>(bytes, at - 20) == kLocator64) {
      const uint64_t end64 = *get<uint64_t>(bytes, at - 20 + 8);
      if (get<uint32_t>(bytes, end64) != kEnd64 || !get<uint64_t>(bytes, end64 + 48)) return damaged("its end");
      *entries = *get<uint64_t>(bytes, end64 + 32);
      offset = *get<uint64_t>(bytes, end64 + 48);
    }
    return offset;
  }
  return invalid("this is no .npz archive");
}

Result<std::string> inflated(std::string_view packed, uint64_t size) {
  // No deflate stream grows by more than this.
  constexpr uint64_t kMostGrowth = 1040;
  if (size / kMostGrowth > packed.size() + 1) return damaged("a member claims to be larger than its data can be");
  std::string out(size, '\0');
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return error(Code::fail, "zlib could not be started");
  uint64_t read = 0, written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    constexpr uint64_t kMost = 1u << 30;
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
    z.avail_in = static_cast<uInt>(std::min<uint64_t>(packed.size() - read, kMost));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    z.avail_out = static_cast<uInt>(std::min<uint64_t>(size - written, kMost));
    const uint64_t in = z.avail_in, room = z.avail_out;
    state = inflate(&z, Z_NO_FLUSH);
    read += in - z.avail_in;
    written += room - z.avail_out;
    if (state == Z_OK && in == z.avail_in && room == z.avail_out) break;
  }
  inflateEnd(&z);
  if (state != Z_STREAM_END || written != size) return damaged("a member cannot be unpacked");
  return out;
}

Result<std::string> content_of(std::string_view bytes, const Member& m) {
  if (m.flags & 1) return not_implemented("member {} is encrypted", quote(m.name));
  const auto signature = get<uint32_t>(bytes, m.offset);
  if (signature != kLocal || !get<uint16_t>(bytes, m.offset + 28)) return damaged("a member's header");
  const uint64_t begin = m.offset + 30 + *get<uint16_t>(bytes, m.offset + 26) + *get<uint16_t>(bytes, m.offset + 28);
  if (!range_inside(begin, m.packed, bytes.size())) return damaged("a member is cut off");
  const std::string_view packed = bytes.substr(begin, m.packed);
  std::string content;
  if (m.method == 0) {
    if (m.size != m.packed) return damaged("a stored member has two sizes");
    content = packed;
  } else if (m.method == 8) {
    TRY_ASSIGN(unpacked, inflated(packed, m.size));
    content = std::move(unpacked);
  } else {
    return not_implemented("member {} is packed with method {}, wanted stored or deflated", quote(m.name), m.method);
  }
  uLong crc = crc32_z(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != m.crc) return damaged(format("the checksum of {} is wrong", quote(m.name)));
  return content;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> read_zip(std::string_view bytes) {
  uint64_t entries = 0;
  TRY_ASSIGN(at, central_directory(bytes, &entries));
  std::vector<std::pair<std::string, std::string>> out;
  for (uint64_t i = 0; i < entries; ++i) {
    if (get<uint32_t>(bytes, at) != kCentral || !get<uint32_t>(bytes, at + 42)) return damaged("its directory");
    Member m;
    m.flags = *get<uint16_t>(bytes, at + 8);
    m.method = *get<uint16_t>(bytes, at + 10);
    m.crc = *get<uint32_t>(bytes, at + 16);
    m.packed = *get<uint32_t>(bytes, at + 20);
    m.size = *get<uint32_t>(bytes, at + 24);
    m.offset = *get<uint32_t>(bytes, at + 42);
    const uint64_t name = *get<uint16_t>(bytes, at + 28), extra = *get<uint16_t>(bytes, at + 30),
                   comment = *get<uint16_t>(bytes, at + 32);
    if (!range_inside(at + 46, name + extra + comment, bytes.size())) return damaged("its directory");
    m.name = bytes.substr(at + 46, name);
    apply_zip64(bytes.substr(at + 46 + name, extra), m);
    at += 46 + name + extra + comment;
    TRY_ASSIGN(content, content_of(bytes, m));
    out.push_back({std::move(m.name), std::move(content)});
  }
  return out;
}

namespace {

template <class T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// What a local header and a directory entry have in common.
void put_common(std::string& out, uint32_t crc, uint32_t size, size_t name) {
  put<uint16_t>(out, 20);    // version needed
  put<uint16_t>(out, 0);     // flags
  put<uint16_t>(out, 0);     // stored
  put<uint16_t>(out, 0);     // time
  put<uint16_t>(out, 0x21);  // 1980-01-01
  put<uint32_t>(out, crc);
  put<uint32_t>(out, size);
  put<uint32_t>(out, size);
  put<uint16_t>(out, static_cast<uint16_t>(name));
  put<uint16_t>(out, 0);  // extra
}

}  // namespace

Result<std::string> write_npz(const std::vector<NamedTensor>& arrays) {
  std::string out, directory;
  if (arrays.size() >= UINT16_MAX) return not_implemented("an archive of {} arrays", arrays.size());
  for (const NamedTensor& a : arrays) {
    TRY_ASSIGN(content, write_npy(a.tensor));
    const std::string name = a.name + ".npy";
    if (name.size() > UINT16_MAX || out.size() + directory.size() + content.size() + name.size() >= UINT32_MAX - 4096)
      return not_implemented("an archive of more than 4 GB; write one .npy file per output instead");
    const auto crc = static_cast<uint32_t>(
        crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(content.data()), content.size()));
    const auto size = static_cast<uint32_t>(content.size());
    put(directory, kCentral);
    put<uint16_t>(directory, 20);
    put_common(directory, crc, size, name.size());
    put<uint16_t>(directory, 0);  // comment
    put<uint16_t>(directory, 0);  // disk
    put<uint16_t>(directory, 0);  // attributes
    put<uint32_t>(directory, 0);
    put<uint32_t>(directory, static_cast<uint32_t>(out.size()));
    directory += name;
    put(out, kLocal);
    put_common(out, crc, size, name.size());
    out += name;
    out += content;
  }
  const auto begin = static_cast<uint32_t>(out.size());
  out += directory;
  put(out, kEnd);
  put<uint32_t>(out, 0);
  put<uint16_t>(out, static_cast<uint16_t>(arrays.size()));
  put<uint16_t>(out, static_cast<uint16_t>(arrays.size()));
  put<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(out, begin);
  put<uint16_t>(out, 0);
  return out;
}

}  // namespace tessera::cli
