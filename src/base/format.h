// format("{} of {}", a, b): text for error messages. Only "{}" is known; numbers, strings, bools and lists of numbers
// can be shown. Kept tiny on purpose: it is part of the minimal library.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// One argument, by value or by view; lives only during the call of format().
class FormatArg {
 public:
  template <std::signed_integral T>
  FormatArg(T v) : kind_(Kind::integer), integer_(v) {}
  template <std::unsigned_integral T>
  FormatArg(T v) : kind_(Kind::natural), natural_(v) {}
  FormatArg(bool v) : kind_(Kind::text), text_(v ? "true" : "false") {}
  FormatArg(double v) : kind_(Kind::real), real_(v) {}
  FormatArg(const char* v) : kind_(Kind::text), text_(v) {}
  FormatArg(std::string_view v) : kind_(Kind::text), text_(v) {}
  FormatArg(const std::string& v) : kind_(Kind::text), text_(v) {}
  FormatArg(std::span<const int64_t> v) : kind_(Kind::list), list_(v) {}

  void append_to(std::string& out) const;

 private:
  enum class Kind : uint8_t { integer, natural, real, text, list } kind_;
  union {
    int64_t integer_;
    uint64_t natural_;
    double real_;
    std::string_view text_;
    std::span<const int64_t> list_;
  };
};

std::string format_args(std::string_view pattern, std::initializer_list<FormatArg> args);

template <class... A>
std::string format(std::string_view pattern, const A&... args) {
  return format_args(pattern, {FormatArg(args)...});
}

// A name from an untrusted file, fit for a message: control bytes escaped, cut at 120 bytes.
std::string quote(std::string_view name);

}  // namespace tessera
