// Tokenizer — the tokens of each string: what lies between matches of separators, or the matches of an expression, or
// single characters; marked at both ends if asked for, and padded to the longest list.
#include "ops/contrib/contrib.h"
#include "ops/text/text_library.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0), 1};
constexpr int64_t kMaxPatternBytes = 8 << 20;
constexpr const char *kBegin = "\x02", *kEnd = "\x03";

struct Params {
  bool mark = false;
  std::string pad;
  int64_t shortest = 1;
  std::vector<std::string> separators;  // or one expression
  bool expression = false;              // of a token, not of what lies between

  bool characters() const {
    return separators.size() == 1 && (expression ? separators[0] == "." : separators[0].empty());
  }
};

Status parse(Attrs& a, Params& p) {
  for (const char* name : {"mark", "mincharnum", "pad_value"})
    if (!a.has(name)) return invalid_graph("it lacks the attribute {}", quote(name));
  a.get("mark", p.mark);
  a.get("pad_value", p.pad);
  a.get("mincharnum", p.shortest);
  a.get("separators", p.separators);
  if (!a.has("separators")) {
    p.expression = true;
    a.get("tokenexp", p.separators.emplace_back());
    if (p.separators[0].empty()) return a.refuse("tokenexp", "an expression, or separators instead");
  }
  if (p.separators.empty()) return a.refuse("separators", "at least one");
  if (p.shortest < 1) return a.refuse("mincharnum", "at least 1");
  if (p.characters() && p.shortest > 1) return a.refuse("mincharnum", "1 for single characters");
  return {};
}

struct Patterns {
  const TesseraText* library = nullptr;
  std::vector<void*> compiled;

  Patterns() = default;
  Patterns(const Patterns&) = delete;
  Patterns& operator=(const Patterns&) = delete;
  ~Patterns() {
    for (void* c : compiled) library->regex_free(c);
  }
};

Status prepare(const void* params, std::shared_ptr<const void>* out) {
  const Params& p = *static_cast<const Params*>(params);
  auto patterns = std::make_shared<Patterns>();
  if (!p.characters()) {
    TRY_ASSIGN(library, text_library());
    patterns->library = library;
    for (const std::string& s : p.separators) {
      char message[256] = "";
      void* c = library->regex_compile_longest(s.data(), s.size(), kMaxPatternBytes, message, sizeof message);
      if (!c)
        return invalid_graph("attribute {} has {}, wanted re2's syntax: {}",
                             quote(p.expression ? "tokenexp" : "separators"), quote(s), std::string_view(message));
      patterns->compiled.push_back(c);
    }
  }
  *out = std::move(patterns);
  return {};
}

// The bytes of the character that `text` begins with; 0 if it is not UTF-8.
size_t character_at(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned c = byte(0);
  const size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const bool odd = (c == 0xe0 && byte(1) < 0xa0) || (c == 0xed && byte(1) > 0x9f) || (c == 0xf0 && byte(1) < 0x90) ||
                   (c == 0xf4 && byte(1) > 0x8f);
  return odd ? 0 : n;
}

// -1: not UTF-8.
int64_t characters_of(std::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); ++count) {
    const size_t n = character_at(text);
    if (n == 0) return -1;
    text.remove_prefix(n);
  }
  return count;
}

using Tokens = std::vector<std::string_view>;

class Splitter {
 public:
  Splitter(const Params& p, const Patterns& patterns) : p_(p), patterns_(patterns) {}

  Status split(std::string_view text, Tokens& out) const {
    if (p_.characters()) {
      for (; !text.empty(); text.remove_prefix(out.back().size())) out.push_back(text.substr(0, character_at(text)));
      return {};
    }
    if (p_.expression) return find(text, out);
    Tokens now{text};
    for (const void* pattern : patterns_.compiled) {
      Tokens next;
      for (const std::string_view part : now) TRY(cut(pattern, part, next));
      now = std::move(next);
    }
    out.insert(out.end(), now.begin(), now.end());
    return {};
  }

 private:
  struct Match {
    bool found;
    size_t begin, end;
  };
  Result<Match> search(const void* pattern, std::string_view text, size_t from) const {
    Match m{};
    const int found = patterns_.library->regex_search(pattern, text.data(), text.size(), from, &m.begin, &m.end);
    if (found < 0) return error(Code::fail, "there is no memory to match the pattern");
    m.found = found > 0;
    return m;
  }
  bool long_enough(std::string_view token) const { return characters_of(token) >= p_.shortest; }
  // Behind the character at `at`; behind the end, one more.
  static size_t step(std::string_view text, size_t at) {
    return at + (at < text.size() ? std::max<size_t>(1, character_at(text.substr(at))) : 1);
  }

  Status find(std::string_view text, Tokens& out) const {
    if (characters_of(text) < p_.shortest) return {};
    for (size_t from = 0; from <= text.size();) {
      TRY_ASSIGN(m, search(patterns_.compiled[0], text, from));
      if (!m.found) break;
      const std::string_view token = text.substr(m.begin, m.end - m.begin);
      const bool kept = long_enough(token);
      if (kept) out.push_back(token);
      from = kept ? m.end : step(text, m.begin);
    }
    return {};
  }

  // A separator of no length takes the character at which it is.
  Status cut(const void* pattern, std::string_view text, Tokens& out) const {
    for (size_t from = 0; from <= text.size();) {
      TRY_ASSIGN(m, search(pattern, text, from));
      const std::string_view token = text.substr(from, m.found ? m.begin - from : text.npos);
      if (long_enough(token)) out.push_back(token);
      if (!m.found) break;
      from = m.end > m.begin ? m.end : step(text, m.begin);
    }
    return {};
  }

  const Params& p_;
  const Patterns& patterns_;
};

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  if (shape.rank() < 1 || shape.rank() > 2) return call.refuse(0, "one or two dimensions");
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  const auto n = static_cast<size_t>(shape.count());
  if (n == 0) {
    dims.back() = 0;
    TRY_ASSIGN(nothing, Shape::checked(dims));
    return call.allocate(0, DType::string, std::move(nothing));
  }
  const auto* x = call.in<std::string>(0);
  const Splitter splitter(p, call.prepared<Patterns>());
  Tokens tokens;                 // of all strings
  std::vector<size_t> first{0};  // of each string in them
  size_t longest = 0;
  for (size_t i = 0; i < n; ++i) {
    if (call.cancelled()) return call.stopped();
    if (characters_of(x[i]) < 0) return call.refuse(0, "UTF-8 (element {})", i);
    TRY(splitter.split(x[i], tokens));
    longest = std::max(longest, tokens.size() - first.back());
    first.push_back(tokens.size());
  }
  if (longest > 0 && p.mark) longest += 2;
  dims.push_back(static_cast<int64_t>(longest));
  TRY_ASSIGN(full, Shape::checked(dims));
  TRY_ASSIGN(y, call.allocate<std::string>(0, std::move(full)));
  for (size_t i = 0; i < n && longest > 0; ++i) {
    std::string* const end = y + longest;
    if (p.mark) *y++ = kBegin;
    for (size_t t = first[i]; t < first[i + 1]; ++t) *y++ = tokens[t];
    if (p.mark) *y++ = kEnd;
    while (y < end) *y++ = p.pad;
  }
  return {};
}

Status infer_shape(const void*, ShapeCall<Dim>& c) { return c.unknown(0); }

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::string)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftTokenizer{.domain = kDomain,
                                        .name = "Tokenizer",
                                        .versions = kVersions,
                                        .parse = parse_checked<Params, kArity, parse>,
                                        .kernels = kKernels,
                                        .prepare = prepare};
extern constexpr OpInference kMicrosoftTokenizerInference{.shape = infer_shape};

}  // namespace tessera
