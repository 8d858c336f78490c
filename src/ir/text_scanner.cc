#include "ir/text_scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tessera::text {

void Scanner::skip() {
  while (!at_end()) {
    if (text_[at_] == '#')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else if (is_space(text_[at_]))
      ++at_;
    else
      return;
  }
}

std::string Scanner::place(size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == before.npos ? position + 1 : position - newline;
  return format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'), column);
}

// The token ahead, for messages.
std::string Scanner::got() const {
  if (at_end()) return "the end of the text";
  size_t end = at_ + 1;
  if (text_[at_] == '"')
    end = std::min(text_.find('"', end), text_.size() - 1) + 1;
  else if (is_name_char(text_[at_]) || text_[at_] == '-')
    while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '.')) ++end;
  return quote(text_.substr(at_, end - at_));
}

Status Scanner::wrong(std::string_view wanted) {
  skip();
  return wrong_at(at_, got(), wanted);
}

Result<std::string> Scanner::string(std::string_view wanted) {
  const size_t begin = position();
  if (!take('"')) return wrong(wanted);
  std::string out;
  while (!at_end() && text_[at_] != '"') {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    out += text_[at_++];
  }
  if (at_end()) return wrong_at(begin, "a quoted text without end", "a closing '\"'");
  ++at_;
  return out;
}

Result<std::string_view> Scanner::number(std::string_view wanted) {
  const size_t begin = position();
  size_t end = begin;
  const auto is = [&](auto&& test) { return end < text_.size() && test(text_[end]); };
  const auto digits = [&] {
    while (is(is_digit)) ++end;
  };
  if (is([](char c) { return c == '-'; })) ++end;
  if (is(is_name_start)) {
    const size_t letters = end;
    while (is(is_name_char)) ++end;
    if (!is_float_word(text_.substr(letters, end - letters))) return wrong(wanted);
  } else if (is(is_digit)) {
    digits();
    if (is([](char c) { return c == '.'; })) {
      ++end;
      digits();
    }
    if (is([](char c) { return c == 'e' || c == 'E'; })) {
      ++end;
      if (is([](char c) { return c == '+' || c == '-'; })) ++end;
      digits();
    }
  } else {
    return wrong(wanted);
  }
  at_ = end;
  return text_.substr(begin, end - begin);
}

Result<int64_t> Scanner::integer(std::string_view wanted) {
  const size_t begin = position();
  TRY_ASSIGN(spelling, number(wanted));
  int64_t v = 0;
  if (!parse_number(spelling, &v)) return wrong_at(begin, quote(spelling), wanted);
  return v;
}

namespace {

template <class T>
bool parse_whole(std::string_view s, T* out) {
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return ec == std::errc() && end == s.data() + s.size();
}

}  // namespace

bool is_real(std::string_view spelling) { return spelling.find_first_not_of("-0123456789") != spelling.npos; }
bool parse_number(std::string_view spelling, int64_t* out) { return parse_whole(spelling, out); }
bool parse_number(std::string_view spelling, uint64_t* out) { return parse_whole(spelling, out); }
bool parse_number(std::string_view spelling, double* out) {
  const bool negative = spelling.starts_with('-');
  if (is_float_word(spelling.substr(negative))) {
    const bool nan = (spelling[negative] | 0x20) == 'n';
    *out = std::copysign(nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity(),
                         negative ? -1.0 : 1.0);
    return true;
  }
  return parse_whole(spelling, out);
}
bool parse_number(std::string_view spelling, float* out) {
  if (is_digit(spelling.back()) || spelling.back() == '.')
    if (parse_whole(spelling, out)) return true;
  // Too small for a float is zero, too large is refused; the rest is rounded above, once.
  double wide = 0;
  if (!parse_number(spelling, &wide)) return false;
  *out = static_cast<float>(wide);
  return std::isinf(*out) == std::isinf(wide);
}

}  // namespace tessera::text
