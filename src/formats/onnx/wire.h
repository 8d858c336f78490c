// Walking protobuf fields on protozero's views, keeping the bytes of fields nobody asked for.
#pragma once
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace tessera::onnx {

inline std::string_view as_view(protozero::data_view v) { return {v.data(), v.size()}; }

// One message. `for (; fields.next();) switch (fields.tag())`; skip_unknown() in the default branch.
class Fields {
 public:
  explicit Fields(std::string_view message) : reader_(message.data(), message.size()), begin_(message.data()) {}

  bool next() {
    begin_ = reader_.data().data();
    return reader_.next();
  }
  uint32_t tag() const { return reader_.tag(); }
  // The value of the field. One of another wire type than its number wants counts as empty or zero.
  std::string_view bytes() {
    return is(Wire::length_delimited) ? as_view(reader_.get_view()) : (reader_.skip(), std::string_view());
  }
  std::string text() { return std::string(bytes()); }
  int64_t integer() { return is(Wire::varint) ? reader_.get_int64() : (reader_.skip(), 0); }
  float real() { return is(Wire::fixed32) ? reader_.get_float() : (reader_.skip(), 0.0f); }
  // Bits of a fixed-width field of 4 or 8 bytes.
  uint64_t fixed(size_t width) {
    if (width == 4 && is(Wire::fixed32)) return reader_.get_fixed32();
    if (width == 8 && is(Wire::fixed64)) return reader_.get_fixed64();
    return reader_.skip(), 0;
  }
  // Keeps the whole field, tag included.
  void skip_unknown(std::string& kept) {
    reader_.skip();
    const char* end = reader_.data().data();
    kept.append(begin_, static_cast<size_t>((end ? end : begin_) - begin_));
  }
  void skip() { reader_.skip(); }
  bool packed() const { return is(Wire::length_delimited); }
  protozero::pbf_reader& raw() { return reader_; }

 private:
  using Wire = protozero::pbf_wire_type;
  bool is(Wire type) const { return reader_.wire_type() == type; }

  protozero::pbf_reader reader_;
  const char* begin_;
};

}  // namespace tessera::onnx
