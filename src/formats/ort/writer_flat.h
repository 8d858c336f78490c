// FlatBuffers written front to back: a table is placed before what it points to, so that large data can follow at the
// end and never needs to be in memory.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::flat {

// A place in the file that holds an offset, filled in when its target is known.
using Slot = uint64_t;

// The fields of a table that is not placed yet.
class Draft {
 public:
  template <class T>
  void number(int field, T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    fields_.push_back({field, sizeof(T), bits});
  }
  void reference(int field) { fields_.push_back({field, 4, 0}); }

 private:
  friend class Writer;
  struct Field {
    int id;
    size_t size;
    uint64_t bits;
  };
  std::vector<Field> fields_;
};

// A table that has its place.
class Placed {
 public:
  uint64_t at() const { return at_; }
  Slot operator[](int field) const { return at_ + offsets_[static_cast<size_t>(field)]; }

 private:
  friend class Writer;
  uint64_t at_ = 0;
  std::vector<uint16_t> offsets_;
};

class Writer {
 public:
  explicit Writer(std::string_view identifier);

  Placed place(Draft draft);
  template <class T>
  uint64_t numbers(std::span<const T> values) {
    align(std::max<size_t>(4, alignof(T)), 4);
    const uint64_t at = append_count(values.size());
    out_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return at;
  }
  // A list of `count` slots; slot i lies at 4 + 4 * i from its start.
  uint64_t references(size_t count);
  static Slot element(uint64_t list, size_t i) { return list + 4 + 4 * i; }

  void point(Slot from, uint64_t to);
  // Equal texts are stored once, after everything else.
  void text(Slot from, std::string_view value);
  void texts(Slot from, const std::vector<std::string_view>& values);
  void root(uint64_t table) { point(0, table); }

  // After this only data may follow, at places of the caller's choice.
  void place_texts();
  // False if an offset did not fit into its 32 bits.
  bool fits() const { return fits_; }
  uint64_t size() const { return out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  // Pads so that what follows after `skip` more bytes is aligned.
  void align(size_t alignment, size_t skip = 0);
  uint64_t append_count(size_t count);
  template <class T>
  void append(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  std::string out_;
  std::map<std::string, uint64_t> layouts_;
  std::unordered_map<std::string, size_t> text_number_;
  std::vector<std::pair<const std::string*, std::vector<Slot>>> texts_;
  bool fits_ = true;
};

}  // namespace tessera::flat
