#include "companions/text.h"

#include <re2/re2.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace {

void say(const std::string& text, char* message, size_t room) {
  if (room == 0) return;
  const size_t n = std::min(text.size(), room - 1);
  std::memcpy(message, text.data(), n);
  message[n] = 0;
}

void* compile(bool longest, const char* pattern, size_t size, int64_t max_bytes, char* message, size_t room) try {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(max_bytes);
  options.set_longest_match(longest);
  auto* regex = new RE2(re2::StringPiece(pattern, size), options);
  if (regex->ok()) return regex;
  say(regex->error(), message, room);
  delete regex;
  return nullptr;
} catch (const std::bad_alloc&) {
  say("out of memory", message, room);
  return nullptr;
}

void* regex_compile(const char* pattern, size_t size, int64_t max_bytes, char* message, size_t room) {
  return compile(false, pattern, size, max_bytes, message, room);
}
void* regex_compile_longest(const char* pattern, size_t size, int64_t max_bytes, char* message, size_t room) {
  return compile(true, pattern, size, max_bytes, message, room);
}

int regex_search(const void* regex, const char* text, size_t size, size_t from, size_t* begin, size_t* end) try {
  re2::StringPiece found;
  const re2::StringPiece all(text, size);
  if (!static_cast<const RE2*>(regex)->Match(all, from, size, RE2::UNANCHORED, &found, 1)) return 0;
  *begin = static_cast<size_t>(found.data() - text);
  *end = *begin + found.size();
  return 1;
} catch (const std::bad_alloc&) {
  return -1;
}

int regex_full_match(const void* regex, const char* text, size_t size) try {
  return RE2::FullMatch(re2::StringPiece(text, size), *static_cast<const RE2*>(regex));
} catch (const std::bad_alloc&) {
  return -1;
}

void regex_free(void* regex) { delete static_cast<RE2*>(regex); }

// Walks over the code points of a text.
struct Reader {
  const utf8proc_uint8_t* at;
  utf8proc_ssize_t left;

  // The next code point, or -1 at the end and where the bytes are not UTF-8 (then left stays above 0).
  utf8proc_int32_t next() {
    utf8proc_int32_t c = -1;
    const utf8proc_ssize_t n = left > 0 ? utf8proc_iterate(at, left, &c) : 0;
    if (n <= 0) return -1;
    at += n;
    left -= n;
    return c;
  }
};

// Counts what is written and writes what fits.
struct Writer {
  utf8proc_uint8_t* out;
  size_t room;
  size_t size = 0;

  void put(utf8proc_int32_t c) {
    utf8proc_uint8_t bytes[4];
    const auto n = static_cast<size_t>(utf8proc_encode_char(c, bytes));
    if (size + n <= room) std::memcpy(out + size, bytes, n);
    size += n;
  }
};

utf8proc_category_t category(utf8proc_int32_t c) { return utf8proc_category(c); }

bool cased(utf8proc_int32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT || utf8proc_isupper(c) || utf8proc_islower(c);
}

// Unicode's Case_Ignorable: marks, modifiers, and the punctuation that stands inside words.
bool ignorable(utf8proc_int32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
  }
  constexpr utf8proc_int32_t kInsideWords[] = {0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                               0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  return std::binary_search(std::begin(kInsideWords), std::end(kInsideWords), c);
}

constexpr utf8proc_int32_t kSigma = 0x3a3, kFinalSigma = 0x3c2, kCapitalDottedI = 0x130, kDotAbove = 0x307;

// Whether a word goes on: the first code point that is not ignorable is cased.
bool word_follows(Reader rest) {
  for (;;) {
    const utf8proc_int32_t c = rest.next();
    if (c < 0) return false;
    if (!ignorable(c)) return cased(c);
  }
}

void put_lower(utf8proc_int32_t c, bool in_word, const Reader& rest, Writer& out) {
  if (c == kSigma && in_word && !word_follows(rest)) return out.put(kFinalSigma);
  if (c == kCapitalDottedI) {
    out.put('i');
    return out.put(kDotAbove);
  }
  out.put(utf8proc_tolower(c));
}

// Where Unicode's upper case is a sequence, it is the upper case of the full folding.
void put_upper(utf8proc_int32_t c, Writer& out) {
  utf8proc_int32_t folded[8];
  int boundary = 0;
  const utf8proc_ssize_t n =
      category(c) == UTF8PROC_CATEGORY_LU ? 1 : utf8proc_decompose_char(c, folded, 8, UTF8PROC_CASEFOLD, &boundary);
  if (n < 2 || n > 8) return out.put(utf8proc_toupper(c));
  for (utf8proc_ssize_t i = 0; i < n; ++i) out.put(utf8proc_toupper(folded[i]));
}

int64_t change_case(int upper, const char* text, size_t size, char* out, size_t room) {
  Reader in{reinterpret_cast<const utf8proc_uint8_t*>(text), static_cast<utf8proc_ssize_t>(size)};
  Writer writer{reinterpret_cast<utf8proc_uint8_t*>(out), room};
  bool in_word = false;  // a cased code point came before, with nothing but ignorable ones since
  for (;;) {
    const utf8proc_int32_t c = in.next();
    if (c < 0) break;
    if (upper)
      put_upper(c, writer);
    else
      put_lower(c, in_word, in, writer);
    if (!ignorable(c)) in_word = cased(c);
  }
  return in.left > 0 ? -1 : static_cast<int64_t>(writer.size);
}

constexpr TesseraText kTable{regex_compile,         regex_full_match, regex_free,
                             regex_compile_longest, regex_search,     change_case};

}  // namespace

const TesseraText* tessera_text(uint32_t version) { return version == kTesseraTextVersion ? &kTable : nullptr; }
