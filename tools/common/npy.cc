#include "common/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/convert.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The Python dictionary of the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    Header h;
    bool descr = false, order = false, shape = false;
    if (!take('{')) return wrong();
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':')) return wrong();
      if (key == "descr" && !descr) {
        descr = string(h.descr);
        if (!descr) return not_implemented("a .npy file of records or objects cannot be read; save plain arrays");
      } else if (key == "fortran_order" && !order) {
        order = true;
        h.fortran = word("True");
        if (!h.fortran && !word("False")) return wrong();
      } else if (key == "shape" && !shape) {
        shape = tuple(h.shape);
        if (!shape) return wrong();
      } else {
        return wrong();
      }
      if (!take(',') && peek() != '}') return wrong();
    }
    if (!descr || !order || !shape) return wrong();
    return h;
  }

 private:
  static Status wrong() { return invalid("the header of a .npy file is damaged"); }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    peek();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  bool string(std::string& out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool tuple(std::vector<int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      peek();
      int64_t v = 0;
      const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
      if (ec != std::errc() || v < 0) return false;
      at_ = static_cast<size_t>(end - text_.data());
      take('L');
      out.push_back(v);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Name {
  DType dtype;
  std::string_view descr;  // kind and bytes
};
constexpr Name kNames[] = {
    {DType::f32, "f4"}, {DType::f64, "f8"},     {DType::f16, "f2"}, {DType::i8, "i1"},    {DType::i16, "i2"},
    {DType::i32, "i4"}, {DType::i64, "i8"},     {DType::u8, "u1"},  {DType::u16, "u2"},   {DType::u32, "u4"},
    {DType::u64, "u8"}, {DType::boolean, "b1"}, {DType::c64, "c8"}, {DType::c128, "c16"},
};

// What NumPy has no name for: the integers that carry its bits.
std::string_view carrier_of(DType dtype) {
  if (dtype == DType::bf16) return "u2";
  if (dtype == DType::i4 || dtype == DType::i2) return "i1";
  return kFloat8.has(dtype) || dtype == DType::f8e8m0 || is_sub_byte(dtype) ? "u1" : "";
}
bool named_in_numpy(DType dtype) {
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const Name& n) { return n.dtype == dtype; });
}

void append_utf8(std::string& out, uint32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

// UTF-8 as code points; bytes that are none stand for themselves.
std::vector<uint32_t> code_points(std::string_view s) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < s.size();) {
    const auto lead = static_cast<unsigned char>(s[i]);
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    uint32_t c = more == 0 ? lead : lead & (0x3fu >> more);
    size_t used = 1;
    while (used <= more && i + used < s.size() && (static_cast<unsigned char>(s[i + used]) & 0xc0) == 0x80)
      c = c << 6 | (static_cast<unsigned char>(s[i + used++]) & 63);
    if (used <= more) {
      c = lead;
      used = 1;
    }
    out.push_back(c);
    i += used;
  }
  return out;
}

// Row-major position of each element of a column-major array, in storage order.
template <class F>
void for_each_place(const Shape& shape, bool fortran, F&& f) {
  const int64_t n = shape.count();
  if (!fortran) {
    for (int64_t i = 0; i < n; ++i) f(i, i);
    return;
  }
  int64_t strides[kMaxRank], index[kMaxRank] = {};
  strides_of(shape.dims(), strides);
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    f(i, at);
    for (int d = 0; d < shape.rank(); ++d) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

Result<Tensor> read_strings(std::string_view data, char kind, size_t width, bool big, const Shape& shape,
                            bool fortran) {
  TRY_ASSIGN(t, Tensor::allocate(DType::string, shape));
  auto* out = static_cast<std::string*>(t.mutable_data());
  for_each_place(shape, fortran, [&](int64_t from, int64_t to) {
    const std::string_view item = data.substr(static_cast<size_t>(from) * width, width);
    if (kind == 'S') {
      out[to] = item.substr(0, item.find_last_not_of('\0') + 1);
      return;
    }
    std::vector<uint32_t> points(width / 4);
    std::memcpy(points.data(), item.data(), width);
    if (big)
      for (uint32_t& c : points) c = __builtin_bswap32(c);
    while (!points.empty() && points.back() == 0) points.pop_back();
    for (const uint32_t c : points) append_utf8(out[to], c);
  });
  return std::move(t);
}

// Elements of `width` bytes, each made of numbers of `unit` bytes.
Result<Tensor> read_numbers(std::string_view data, DType dtype, size_t width, size_t unit, bool big, const Shape& shape,
                            bool fortran) {
  TRY_ASSIGN(t, Tensor::allocate(dtype, shape));
  if (is_sub_byte(dtype)) std::memset(t.mutable_data(), 0, static_cast<size_t>(t.bytes()));
  auto* out = static_cast<char*>(t.mutable_data());
  if (!fortran && !big && !is_sub_byte(dtype)) {
    if (!data.empty()) std::memcpy(out, data.data(), data.size());
    return std::move(t);
  }
  for_each_place(shape, fortran, [&](int64_t from, int64_t to) {
    const char* item = data.data() + static_cast<size_t>(from) * width;
    if (is_sub_byte(dtype)) return sub_byte_set(dtype, out, to, *item);
    char* place = out + static_cast<size_t>(to) * width;
    std::memcpy(place, item, width);
    if (big)
      for (size_t i = 0; i < width; i += unit) std::reverse(place + i, place + i + unit);
  });
  return std::move(t);
}

struct Kind {
  DType dtype = DType::undefined;
  char letter = 0;
  size_t width = 0, unit = 0;
  bool big = false;
};

Result<Kind> kind_of(const std::string& descr, DType wanted) {
  const auto refuse = [&] {
    return not_implemented("a .npy file of type {} cannot be read; convert it with numpy's astype", quote(descr));
  };
  if (descr.size() < 3) return refuse();
  Kind k;
  k.big = descr[0] == '>';
  k.letter = descr[1];
  const auto [end, ec] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), k.width);
  if (ec != std::errc() || end != descr.data() + descr.size() || k.width > (1u << 30)) return refuse();
  k.unit = k.letter == 'c' ? k.width / 2 : k.width;
  if (k.letter == 'U') k.width *= 4;
  if (k.letter == 'S' || k.letter == 'U') {
    k.dtype = DType::string;
    return k;
  }
  const bool bits = k.letter == 'V' || k.letter == 'u' || k.letter == 'i';
  if (const std::string_view carrier = carrier_of(wanted); bits && !carrier.empty()) {
    if (k.width == static_cast<size_t>(carrier[1] - '0')) k.dtype = wanted;
  }
  for (const Name& n : kNames)
    if (k.dtype == DType::undefined && descr.substr(1) == n.descr) k.dtype = n.dtype;
  if (k.dtype == DType::undefined) return refuse();
  return k;
}

}  // namespace

Result<Tensor> read_npy(std::string_view bytes, DType wanted) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return invalid("this is no .npy file");
  const bool old = bytes[6] == 1;
  const size_t prefix = old ? 10 : 12;
  if (bytes.size() < prefix) return invalid("the header of a .npy file is cut off");
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, old ? 2 : 4);
  if (length > bytes.size() - prefix) return invalid("the header of a .npy file is cut off");
  TRY_ASSIGN(header, HeaderParser(bytes.substr(prefix, length)).parse());
  TRY_ASSIGN(kind, kind_of(header.descr, wanted));
  TRY_ASSIGN(shape, Shape::checked(header.shape));
  const std::string_view data = bytes.substr(prefix + length);
  int64_t size = 0;
  if (!checked_mul(shape.count(), static_cast<int64_t>(kind.width), &size) || static_cast<uint64_t>(size) > data.size())
    return invalid("a .npy file of shape {} and type {} has {} bytes of data, wanted {}", shape.dims(),
                   quote(header.descr), data.size(), size);
  if (kind.dtype == DType::string) {
    if (kind.width == 0 && shape.count() != 0) return invalid("a .npy file has texts of no length");
    return read_strings(data, kind.letter, kind.width, kind.big, shape, header.fortran);
  }
  return read_numbers(data.substr(0, static_cast<size_t>(size)), kind.dtype, kind.width, kind.unit, kind.big, shape,
                      header.fortran);
}

namespace {

std::string header_of(std::string_view descr, const Shape& shape) {
  std::string dims;
  for (const int64_t d : shape.dims()) dims += format("{}, ", d);
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  std::string text = format("{'descr': '{}', 'fortran_order': False, 'shape': ({}), }", descr, dims);
  text.append(63 - (kMagic.size() + 4 + text.size()) % 64, ' ');
  text += '\n';
  std::string out(kMagic);
  out += '\1';
  out += '\0';
  out += static_cast<char>(text.size() & 255);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

std::string write_strings(const Tensor& t) {
  size_t longest = 1;
  std::vector<std::vector<uint32_t>> all;
  for (const std::string& s : t.values<std::string>()) {
    all.push_back(code_points(s));
    longest = std::max(longest, all.back().size());
  }
  std::string out = header_of(format("<U{}", longest), t.shape());
  for (std::vector<uint32_t>& points : all) {
    points.resize(longest);
    out.append(reinterpret_cast<const char*>(points.data()), longest * 4);
  }
  return out;
}

}  // namespace

Result<std::string> write_npy(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::string) return write_strings(tensor);
  std::string descr(carrier_of(dtype));
  for (const Name& n : kNames)
    if (n.dtype == dtype) descr = n.descr;
  if (descr.empty()) return not_implemented("{} cannot be written as .npy", name_of(dtype));
  // One byte has no order.
  descr.insert(0, 1, descr == "u1" || descr == "i1" || descr == "b1" ? '|' : '<');
  std::string out = header_of(descr, tensor.shape());
  if (named_in_numpy(dtype) || !is_sub_byte(dtype)) {
    out.append(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes()));
    return out;
  }
  for (int64_t i = 0; i < tensor.count(); ++i) out += static_cast<char>(sub_byte_get(dtype, tensor.data(), i));
  return out;
}

}  // namespace tessera::cli
