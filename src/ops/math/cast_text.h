// Numbers as text, by the rules of Cast: plain decimal form, INF, -INF, NaN; letters of either case when read.
#pragma once
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

// The shortest text that reads back as the same number; an exponent only for the very large and the very small.
template <class T>
std::string number_text(T v) {
  char text[64];
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
    const T a = std::fabs(v);
    const bool plain = v == 0 || (a >= T(1e-4) && a < T(1e16));
    const auto end =
        std::to_chars(text, text + sizeof text, v, plain ? std::chars_format::fixed : std::chars_format::scientific);
    return {text, end.ptr};
  } else {
    return {text, std::to_chars(text, text + sizeof text, v).ptr};
  }
}

// Without white space around it and a leading plus sign.
inline std::string_view number_body(std::string_view s) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t first = s.find_first_not_of(kSpace);
  if (first == s.npos) return {};
  s = s.substr(first, s.find_last_not_of(kSpace) - first + 1);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  return s;
}

// Of a decimal number that is out of range: whether it is too large rather than too small.
inline bool is_huge(std::string_view s) {
  const size_t e = std::min(s.find_first_of("eE"), s.size());
  const std::string_view digits = s.substr(0, e);
  const size_t point = std::min(digits.find('.'), digits.size()), first = digits.find_first_of("123456789");
  if (first == digits.npos) return false;
  if (e < s.size() && e + 1 < s.size()) {
    const bool negative = s[e + 1] == '-';
    const std::string_view exponent = s.substr(e + (negative || s[e + 1] == '+' ? 2 : 1));
    int64_t n = 0;
    if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), n).ec != std::errc{}) return !negative;
    return (negative ? -n : n) + static_cast<int64_t>(point) - static_cast<int64_t>(first) > 0;
  }
  return first < point;
}

// False if the text is no number.
template <class T>
bool parse_real(std::string_view text, T* out) {
  const std::string_view s = number_body(text);
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), *out);
  if (s.empty() || end != s.data() + s.size() || status == std::errc::invalid_argument) return false;
  if (status == std::errc::result_out_of_range)
    *out = std::copysign(is_huge(s) ? std::numeric_limits<T>::infinity() : T{0}, s[0] == '-' ? T{-1} : T{1});
  return true;
}

// Whole numbers exactly; others are cut towards zero.
template <class T, class ToInteger>
bool parse_integer(std::string_view text, T* out, ToInteger&& cut) {
  const std::string_view s = number_body(text);
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), *out);
  if (!s.empty() && end == s.data() + s.size() && status == std::errc{}) return true;
  double v;
  if (!parse_real(s, &v)) return false;
  *out = cut(v);
  return true;
}

inline bool parse_bool(std::string_view text, bool* out) {
  const std::string_view s = number_body(text);
  const auto is = [&](std::string_view word) {
    return s.size() == word.size() &&
           std::equal(s.begin(), s.end(), word.begin(), [](char a, char b) { return (a | 0x20) == b; });
  };
  if (is("true") || is("false")) return *out = is("true"), true;
  double v;
  if (!parse_real(s, &v)) return false;
  *out = v != 0;
  return true;
}

}  // namespace tessera
