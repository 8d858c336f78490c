#include "test_file.h"

#include <cstdlib>
#include <fstream>

namespace tessera::testing {
namespace {

// Words of a line; "quoted text" is one word that keeps its quotes, and # starts a comment.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  for (size_t i = 0; i < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[i]))) {
      ++i;
      continue;
    }
    if (line[i] == '#') break;
    std::string word;
    bool quoted = false;
    while (i < line.size() && (quoted || !std::isspace(static_cast<unsigned char>(line[i])))) {
      if (line[i] == '"') quoted = !quoted;
      if (quoted && line[i] == '\\' && i + 1 < line.size()) word += line[i++];
      word += line[i++];
    }
    out.push_back(std::move(word));
  }
  return out;
}

std::string unquote(const std::string& word) {
  if (word.size() < 2 || word.front() != '"') return word;
  std::string out;
  for (size_t i = 1; i + 1 < word.size(); ++i) {
    if (word[i] == '\\' && i + 2 < word.size()) {
      ++i;
      out += word[i] == 'n' ? '\n' : word[i] == 't' ? '\t' : word[i] == '0' ? '\0' : word[i];
    } else {
      out += word[i];
    }
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

bool is_integer(const std::string& s) {
  char* end = nullptr;
  std::strtoll(s.c_str(), &end, 10);
  return !s.empty() && !*end;
}

// name=value: 1, 0.5, "text", [1,2], [0.5,1], ["a","b"].
Result<ir::Attribute> parse_attribute(const std::string& word) {
  const size_t eq = word.find('=');
  if (eq == word.npos) return invalid("attribute {} has no value", quote(word));
  const std::string name = word.substr(0, eq), value = word.substr(eq + 1);
  if (!value.empty() && value.front() == '[') {
    const std::vector<std::string> items = split(std::string_view(value).substr(1, value.size() - 2), ',');
    bool ints = true;
    for (const std::string& s : items) ints = ints && is_integer(s);
    if (!items.empty() && items[0].front() == '"') {
      std::vector<std::string> texts;
      for (const std::string& s : items) texts.push_back(unquote(s));
      return ir::Attribute{name, ir::AttrType::strings, texts, {}, {}};
    }
    if (ints) {
      std::vector<int64_t> numbers;
      for (const std::string& s : items) numbers.push_back(std::strtoll(s.c_str(), nullptr, 10));
      return ir::Attribute::integers(name, numbers);
    }
    std::vector<float> reals;
    for (const std::string& s : items) reals.push_back(std::strtof(s.c_str(), nullptr));
    return ir::Attribute{name, ir::AttrType::floats, reals, {}, {}};
  }
  if (!value.empty() && value.front() == '"') return ir::Attribute::text(name, unquote(value));
  if (is_integer(value)) return ir::Attribute::integer(name, std::strtoll(value.c_str(), nullptr, 10));
  return ir::Attribute::real(name, std::strtof(value.c_str(), nullptr));
}

Result<std::pair<int, int>> parse_opsets(const std::string& word) {
  if (word == "all") return std::pair(1, 1 << 20);
  const size_t dots = word.find("..");
  const int first = std::atoi(word.c_str());
  if (first < 1) return invalid("opsets {}, wanted all, A, A.. or A..B", quote(word));
  if (dots == word.npos) return std::pair(first, first);
  const std::string last = word.substr(dots + 2);
  return std::pair(first, last.empty() ? 1 << 20 : std::atoi(last.c_str()));
}

// "[2,3]" or "i64[2,3]".
Status parse_shape(const std::string& word, Literal& out) {
  const size_t open = word.find('[');
  if (open == word.npos || word.back() != ']') return invalid("{} is no shape", quote(word));
  if (open > 0) {
    out.dtype = short_dtype(word.substr(0, open));
    if (!out.dtype) return invalid("{} is no type", quote(word.substr(0, open)));
  }
  for (const std::string& d : split(std::string_view(word).substr(open + 1, word.size() - open - 2), ','))
    out.dims.push_back(std::strtoll(d.c_str(), nullptr, 10));
  return {};
}

class Parser {
 public:
  explicit Parser(std::string path) : path_(std::move(path)) {}

  Result<std::vector<TestFile>> run() {
    std::ifstream in(path_);
    if (!in) return error(Code::no_such_file, "cannot open {}", quote(path_));
    std::string text;
    for (int line = 1; std::getline(in, text); ++line) {
      // Arguments may share a line, separated by semicolons.
      for (const std::string& part : pieces(text)) {
        const std::vector<std::string> words = words_of(part);
        if (words.empty()) continue;
        if (Status s = add(words, part, line); !s.ok()) return std::move(s).in(format("{}:{}", path_, line));
      }
    }
    return std::move(files_);
  }

 private:
  static std::vector<std::string> pieces(const std::string& text) {
    std::vector<std::string> out(1);
    bool quoted = false;
    for (const char c : text) {
      if (c == '"') quoted = !quoted;
      if (c == ';' && !quoted)
        out.emplace_back();
      else
        out.back() += c;
    }
    return out;
  }

  Status add(const std::vector<std::string>& w, const std::string& text, int line) {
    if (w[0] == "op") return add_op(w);
    if (files_.empty()) return invalid("a test file starts with an op line");
    TestFile& f = files_.back();
    if (w[0] == "types") return add_types(w, f);
    if (w[0] == "tolerance" && w.size() == 3) {
      f.rtol = std::atof(w[1].c_str());
      f.atol = std::atof(w[2].c_str());
      return {};
    }
    if (w[0] == "case") {
      TestCase c;
      c.line = line;
      const size_t at = text.find("case") + 4;
      c.name = text.substr(std::min(text.size(), text.find_first_not_of(" \t", at)));
      f.cases.push_back(std::move(c));
      return {};
    }
    if (f.cases.empty()) return invalid("{} stands before the first case", quote(w[0]));
    return add_to_case(w, text, f.cases.back());
  }

  Status add_op(const std::vector<std::string>& w) {
    if (w.size() < 2) return invalid("op wants a name");
    TestFile f;
    f.path = path_;
    f.op = w[1];
    for (size_t i = 2; i + 1 < w.size(); i += 2) {
      if (w[i] == "domain") {
        f.domain = w[i + 1];
      } else if (w[i] == "opsets") {
        TRY_ASSIGN(range, parse_opsets(w[i + 1]));
        f.opsets = range;
      } else {
        return invalid("{} is not known on an op line", quote(w[i]));
      }
    }
    files_.push_back(std::move(f));
    return {};
  }

  static Status add_types(const std::vector<std::string>& w, TestFile& f) {
    TypeAxis axis;
    size_t i = 1;
    for (bool more = true; i < w.size() && more; ++i) {
      std::string names = w[i];
      if (names.back() == ':') {
        names.pop_back();
        more = false;
      }
      for (const std::string& n : split(names, ',')) axis.arguments.push_back(n);
    }
    for (; i < w.size(); ++i) {
      const auto t = short_dtype(w[i]);
      if (!t) return invalid("{} is no type", quote(w[i]));
      axis.types.push_back(*t);
    }
    if (axis.types.empty()) return invalid("types wants names, a colon and types");
    f.types.push_back(std::move(axis));
    return {};
  }

  static Status add_to_case(const std::vector<std::string>& w, const std::string& text, TestCase& c) {
    if (w[0] == "attr") {
      for (size_t i = 1; i < w.size(); ++i) {
        TRY_ASSIGN(a, parse_attribute(w[i]));
        c.attributes.push_back(std::move(a));
      }
      return {};
    }
    if (w[0] == "error") {
      const size_t at = text.find("error") + 5;
      const size_t begin = text.find_first_not_of(" \t", at);
      c.error = begin == text.npos ? " " : text.substr(begin);
      while (!c.error.empty() && std::isspace(static_cast<unsigned char>(c.error.back()))) c.error.pop_back();
      if (c.error.empty()) c.error = " ";
      return {};
    }
    if (w[0] == "opsets" && w.size() == 2) {
      TRY_ASSIGN(range, parse_opsets(w[1]));
      c.opsets = range;
      return {};
    }
    Literal arg;
    arg.name = w[0];
    if (w.size() == 2 && w[1] == "-") {
      arg.absent = true;
    } else {
      if (w.size() < 2) return invalid("{} wants a shape", quote(w[0]));
      TRY(parse_shape(w[1], arg));
      for (size_t i = 2; i < w.size(); ++i) arg.values.push_back(unquote(w[i]));
    }
    c.arguments.push_back(std::move(arg));
    return {};
  }

  std::string path_;
  std::vector<TestFile> files_;
};

}  // namespace

std::optional<DType> short_dtype(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> kNames[] = {{"f32", DType::f32},
                                                                  {"f64", DType::f64},
                                                                  {"f16", DType::f16},
                                                                  {"bf16", DType::bf16},
                                                                  {"i8", DType::i8},
                                                                  {"i16", DType::i16},
                                                                  {"i32", DType::i32},
                                                                  {"i64", DType::i64},
                                                                  {"u8", DType::u8},
                                                                  {"u16", DType::u16},
                                                                  {"u32", DType::u32},
                                                                  {"u64", DType::u64},
                                                                  {"bool", DType::boolean},
                                                                  {"string", DType::string},
                                                                  {"c64", DType::c64},
                                                                  {"c128", DType::c128},
                                                                  {"f8e4m3fn", DType::f8e4m3fn},
                                                                  {"f8e4m3fnuz", DType::f8e4m3fnuz},
                                                                  {"f8e5m2", DType::f8e5m2},
                                                                  {"f8e5m2fnuz", DType::f8e5m2fnuz},
                                                                  {"u4", DType::u4},
                                                                  {"i4", DType::i4},
                                                                  {"u2", DType::u2},
                                                                  {"i2", DType::i2},
                                                                  {"f4e2m1", DType::f4e2m1},
                                                                  {"f8e8m0", DType::f8e8m0},
                                                                  {"f6e2m3", DType::f6e2m3},
                                                                  {"f6e3m2", DType::f6e3m2}};
  for (const auto& [text, type] : kNames)
    if (text == name) return type;
  return {};
}

Result<std::vector<TestFile>> parse_test_file(const std::string& path) { return Parser(path).run(); }

}  // namespace tessera::testing
