// FlatBuffers read in place, from bytes that anybody may have written. No read leaves the bytes: one that would gives
// zero or nothing and marks the file as damaged. Whoever reads looks at File::status() before believing what was read.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/checked.h"
#include "base/status.h"

namespace tessera::flat {

class Table;

class File {
 public:
  explicit File(std::string_view bytes) : bytes_(bytes), work_left_(kWorkPerByte * bytes.size() + kWorkPerByte) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The table that the first four bytes point to.
  Table root();
  // The four characters after them that say what the file is; empty if there are none.
  static std::string_view identifier(std::string_view bytes) {
    return bytes.size() < 8 ? std::string_view() : bytes.substr(4, 4);
  }
  Status status() const;
  std::string_view bytes() const { return bytes_; }

  // What views read through.
  bool inside(uint64_t at, uint64_t size, const char* what);
  template <class T>
  T read(uint64_t at) const {
    T out;
    std::memcpy(&out, bytes_.data() + at, sizeof(T));
    return out;
  }
  void damage(const char* what, uint64_t at);
  // Where the offset stored at `at` points to; 0 if it points out of the file. `at` itself is inside.
  uint64_t follow(uint64_t at);
  // Views may share what they point to, so a small file can ask for much work; false when that is too much.
  bool spend(uint64_t work);
  std::string_view text(uint64_t at);

 private:
  static constexpr uint64_t kWorkPerByte = 64;
  std::string_view bytes_;
  uint64_t work_left_;
  const char* damage_ = nullptr;
  uint64_t damaged_at_ = 0;
};

// A list inside the file: numbers and structures are copied out one by one, tables and texts are followed.
template <class T>
class Vector {
 public:
  Vector() = default;
  Vector(File& file, uint64_t at);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T operator[](size_t i) const;
  uint64_t at() const { return at_; }  // of the first element

  struct Iterator {
    const Vector* list;
    size_t i;
    T operator*() const { return (*list)[i]; }
    void operator++() { ++i; }
    bool operator!=(const Iterator& o) const { return i != o.i; }
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  static constexpr bool kFollowed = std::is_same_v<T, Table> || std::is_same_v<T, std::string_view>;
  File* file_ = nullptr;
  uint64_t at_ = 0;
  size_t size_ = 0;
};

// A table; false where the file has none. A field that is absent reads as its default, as zero or as nothing.
class Table {
 public:
  Table() = default;
  Table(File& file, uint64_t at);

  explicit operator bool() const { return file_ != nullptr; }
  bool has(int field) const { return at(field) != 0; }
  uint64_t at(int field) const { return place(field, 1); }  // of the field in the file; 0 if it is absent
  template <class T>
  T number(int field, T otherwise = 0) const {
    const uint64_t at = place(field, sizeof(T));
    return at ? file_->template read<T>(at) : otherwise;
  }
  std::string_view text(int field) const {
    const uint64_t at = target(field);
    return at ? file_->text(at) : std::string_view();
  }
  Table table(int field) const {
    const uint64_t at = target(field);
    return at ? Table(*file_, at) : Table();
  }
  template <class T>
  Vector<T> list(int field) const {
    const uint64_t at = target(field);
    return at ? Vector<T>(*file_, at) : Vector<T>();
  }

 private:
  // Where the field lies, 0 if it is absent.
  uint64_t place(int field, uint64_t size) const;
  uint64_t target(int field) const {
    const uint64_t at = place(field, 4);
    return at ? file_->follow(at) : 0;
  }
  File* file_ = nullptr;
  uint64_t at_ = 0, vtable_ = 0;
  uint16_t vtable_size_ = 0, size_ = 0;
};

template <class T>
Vector<T>::Vector(File& file, uint64_t at) {
  static_assert(kFollowed || std::is_trivially_copyable_v<T>);
  if (!file.inside(at, 4, "a list")) return;
  const uint64_t count = file.read<uint32_t>(at);
  const uint64_t bytes = count * (kFollowed ? 4 : sizeof(T));
  if (!file.inside(at + 4, bytes, "the elements of a list")) return;
  if (!std::is_same_v<T, uint8_t> && !file.spend(bytes)) return;  // plain bytes stay where they are
  file_ = &file;
  at_ = at + 4;
  size_ = static_cast<size_t>(count);
}

template <class T>
T Vector<T>::operator[](size_t i) const {
  if constexpr (kFollowed) {
    const uint64_t at = file_->follow(at_ + 4 * i);
    if (!at) return T();
    if constexpr (std::is_same_v<T, Table>)
      return Table(*file_, at);
    else
      return file_->text(at);
  } else {
    return file_->template read<T>(at_ + sizeof(T) * i);
  }
}

}  // namespace tessera::flat
