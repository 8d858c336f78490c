// Tokens of ONNX's textual syntax, read from the left; '#' begins a comment.
#pragma once
#include <string>
#include <string_view>

#include "base/status.h"
#include "ir/text_words.h"

namespace tessera::text {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // The next character that is no space, 0 at the end.
  char peek() {
    skip();
    return at_end() ? '\0' : text_[at_];
  }
  bool done() {
    skip();
    return at_end();
  }
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }
  Status expect(char c) { return take(c) ? Status{} : wrong(format("'{}'", std::string_view(&c, 1))); }
  Status expect_arrow() {
    skip();
    if (text_.substr(at_, 2) != "=>") return wrong("'=>'");
    at_ += 2;
    return {};
  }

  // The identifier ahead, empty if there is none.
  std::string_view peek_word() {
    skip();
    size_t end = at_;
    if (end < text_.size() && is_name_start(text_[end]))
      while (end < text_.size() && is_name_char(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  std::string_view take_word() {
    const std::string_view word = peek_word();
    at_ += word.size();
    return word;
  }
  Result<std::string> word(std::string_view wanted) {
    const std::string_view w = take_word();
    if (w.empty()) return wrong(wanted);
    return std::string(w);
  }
  // An identifier, or any name in quotes.
  Result<std::string> name(std::string_view wanted) { return peek() == '"' ? string(wanted) : word(wanted); }
  Result<std::string> string(std::string_view wanted);
  // The spelling of a number, "nan" and "inf" included.
  Result<std::string_view> number(std::string_view wanted);
  Result<int64_t> integer(std::string_view wanted);

  size_t position() {
    skip();
    return at_;
  }
  // Back to an earlier position.
  void rewind(size_t position) { at_ = position; }
  // Room for this many literals at most is left.
  size_t rest() const { return text_.size() - at_; }

  // "line 3, column 7: got '}', wanted ..."
  Status wrong(std::string_view wanted);
  Status wrong_at(size_t position, std::string_view got, std::string_view wanted) const {
    return invalid("{}: got {}, wanted {}", place(position), got, wanted);
  }
  std::string place(size_t position) const;

 private:
  bool at_end() const { return at_ >= text_.size(); }
  void skip();
  std::string got() const;

  std::string_view text_;
  size_t at_ = 0;
};

// The value of a number's spelling; false if it is out of range or of another kind.
bool parse_number(std::string_view spelling, int64_t* out);
bool parse_number(std::string_view spelling, uint64_t* out);
bool parse_number(std::string_view spelling, float* out);
bool parse_number(std::string_view spelling, double* out);
// Written as a real number: with a point, an exponent, or in letters.
bool is_real(std::string_view spelling);

}  // namespace tessera::text
