#include "base/format.h"

#include <charconv>
#include <cstdio>

namespace tessera {

void FormatArg::append_to(std::string& out) const {
  char digits[32];
  const auto number = [&](auto v) { out.append(digits, std::to_chars(digits, digits + 32, v).ptr); };
  switch (kind_) {
    case Kind::integer: return number(integer_);
    case Kind::natural: return number(natural_);
    case Kind::real: out.append(digits, std::snprintf(digits, sizeof digits, "%g", real_)); return;
    case Kind::text: out += text_; return;
    case Kind::list:
      out += '[';
      for (size_t i = 0; i < list_.size(); ++i) {
        if (i) out += ',';
        number(list_[i]);
      }
      out += ']';
  }
}

std::string format_args(std::string_view pattern, std::initializer_list<FormatArg> args) {
  std::string out;
  const FormatArg* next = args.begin();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 1 < pattern.size() && pattern[i + 1] == '}' && next != args.end()) {
      (next++)->append_to(out);
      ++i;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

std::string quote(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string out = "'";
  for (const char c : name.substr(0, kLongest)) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
    } else {
      char hex[8];
      out.append(hex, std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c)));
    }
  }
  if (name.size() > kLongest) out += "...";
  return out + "'";
}

}  // namespace tessera
