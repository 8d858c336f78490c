// Walking protobuf fields, keeping the bytes of fields nobody asked for.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::onnx {

// What is wrong with the bytes that this thread has walked over since forget_damage(), or null. Damage ends the walk
// over every message, so what was read then is a part of what was there.
const char* damage();
void forget_damage();

// One message. `for (; fields.next();) switch (fields.tag())`; every field is read or skipped.
class Fields {
 public:
  explicit Fields(std::string_view message)
      : at_(message.data()), end_(message.data() + message.size()), begin_(message.data()) {}

  bool next();
  uint32_t tag() const { return tag_; }
  // The value of the field. One of another wire type than its number wants counts as empty or zero.
  std::string_view bytes();
  std::string text() { return std::string(bytes()); }
  int64_t integer();
  float real() { return std::bit_cast<float>(static_cast<uint32_t>(fixed(4))); }
  // Bits of a fixed-width field of 4 or 8 bytes.
  uint64_t fixed(size_t width);
  // Appends the numbers of a repeated field, packed or one by one.
  void integers(std::vector<int64_t>& out);
  void reals(std::vector<float>& out);
  // Keeps the whole field, tag included.
  void skip_unknown(std::string& kept);
  void skip();
  bool packed() const { return type_ == kBytes; }

 private:
  enum : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint64_t varint();
  std::string_view take(uint64_t size);

  const char* at_;
  const char* end_;
  const char* begin_;  // of the field
  uint32_t tag_ = 0, type_ = 0;
};

}  // namespace tessera::onnx
