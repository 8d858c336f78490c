#include "formats/onnx/wire.h"

#include <cstring>

namespace tessera::onnx {
namespace {

thread_local const char* found_damage = nullptr;

constexpr int kVarintBits = 64;
constexpr uint32_t kMostTag = (1u << 29) - 1, kReservedTags = 19000, kAfterReservedTags = 20000;

}  // namespace

const char* damage() { return found_damage; }
void forget_damage() { found_damage = nullptr; }

bool Fields::next() {
  begin_ = at_;
  if (at_ == end_ || found_damage) return false;
  const uint64_t key = varint();
  type_ = static_cast<uint32_t>(key & 7);
  tag_ = static_cast<uint32_t>(key >> 3);
  if (key >> 3 == 0 || key >> 3 > kMostTag || (tag_ >= kReservedTags && tag_ < kAfterReservedTags))
    found_damage = "a field has no valid number";
  else if (type_ != kVarint && type_ != kFixed64 && type_ != kBytes && type_ != kFixed32)
    found_damage = "a field has an unknown form";
  return !found_damage;
}

uint64_t Fields::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < kVarintBits; shift += 7) {
    if (at_ == end_) {
      found_damage = "it ends inside a number";
      return 0;
    }
    const auto byte = static_cast<unsigned char>(*at_++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  found_damage = "a number is too long";
  return 0;
}

std::string_view Fields::take(uint64_t size) {
  if (size > static_cast<uint64_t>(end_ - at_)) {
    found_damage = "it ends inside a field";
    at_ = end_;
    return {};
  }
  const std::string_view out(at_, static_cast<size_t>(size));
  at_ += size;
  return out;
}

std::string_view Fields::bytes() {
  if (type_ == kBytes) return take(varint());
  skip();
  return {};
}

int64_t Fields::integer() {
  if (type_ == kVarint) return static_cast<int64_t>(varint());
  skip();
  return 0;
}

uint64_t Fields::fixed(size_t width) {
  uint64_t bits = 0;
  if (type_ == (width == 4 ? kFixed32 : kFixed64)) {
    const std::string_view field = take(width);
    if (!field.empty()) std::memcpy(&bits, field.data(), field.size());
  } else {
    skip();
  }
  return bits;
}

void Fields::integers(std::vector<int64_t>& out) {
  if (!packed()) return out.push_back(integer());
  Fields list(bytes());
  while (list.at_ != list.end_ && !found_damage) out.push_back(static_cast<int64_t>(list.varint()));
}

void Fields::reals(std::vector<float>& out) {
  if (!packed()) return out.push_back(real());
  const std::string_view list = bytes();
  if (list.size() % sizeof(float)) found_damage = "a list of numbers has a part of one";
  const size_t count = list.size() / sizeof(float), before = out.size();
  out.resize(before + count);
  if (count) std::memcpy(out.data() + before, list.data(), count * sizeof(float));
}

void Fields::skip_unknown(std::string& kept) {
  skip();
  kept.append(begin_, static_cast<size_t>(at_ - begin_));
}

void Fields::skip() {
  switch (type_) {
    case kVarint: varint(); break;
    case kFixed64: take(8); break;
    case kFixed32: take(4); break;
    default: take(varint());
  }
}

}  // namespace tessera::onnx
