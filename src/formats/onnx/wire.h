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
  std::string_view bytes() { return as_view(reader_.get_view()); }
  std::string text() { return std::string(bytes()); }
  int64_t integer() { return reader_.get_int64(); }
  float real() { return reader_.get_float(); }
  // Keeps the whole field, tag included.
  void skip_unknown(std::string& kept) {
    reader_.skip();
    const char* end = reader_.data().data();
    kept.append(begin_, static_cast<size_t>((end ? end : begin_) - begin_));
  }
  void skip() { reader_.skip(); }
  bool packed() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }
  protozero::pbf_reader& raw() { return reader_; }

 private:
  protozero::pbf_reader reader_;
  const char* begin_;
};

}  // namespace tessera::onnx
