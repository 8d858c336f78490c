// StringSplit — the parts of each string between delimiters, padded with empty strings to the longest list.
#include <algorithm>

#include "ops/op.h"

namespace tessera {
namespace {

struct Params {
  std::string delimiter;  // empty: runs of white space, which also fall away at both ends
  int64_t maxsplit = -1;  // negative: no limit
};
Status parse(Attrs& a, Params& p) {
  a.get("delimiter", p.delimiter);
  a.get("maxsplit", p.maxsplit);
  return {};
}

void types(TypeCall& c) {
  c.out[0] = {Kind::tensor, DType::string, Kind::tensor};
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::i64, Kind::tensor};
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  DimVec<Dim> parts(c.dims(0));
  if (parts.full()) return c.refuse(0, format("a tensor of at most {} dimensions", kMaxRank - 1));
  parts.push(c.fresh());
  TRY(c.set(0, parts));
  return c.outputs() > 1 ? c.set(1, c.dims(0)) : Status{};
}

// The bytes of the white space that `text` begins with, by Unicode; 0 if it begins with something else.
size_t space_at(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned c = byte(0);
  if (c < 0x80) return !text.empty() && (c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f));
  if (c == 0xc2) return byte(1) == 0x85 || byte(1) == 0xa0 ? 2 : 0;
  if (c < 0xe1 || c > 0xe3) return 0;
  const unsigned code = (c & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
  const bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
                     code == 0x202f || code == 0x205f || code == 0x3000;
  return space && byte(1) >> 6 == 2 && byte(2) >> 6 == 2 ? 3 : 0;
}

std::string_view without_leading_space(std::string_view text) {
  while (const size_t n = space_at(text)) text.remove_prefix(n);
  return text;
}

using Parts = std::vector<std::string_view>;

void split_at_space(std::string_view rest, int64_t maxsplit, Parts& out) {
  rest = without_leading_space(rest);
  for (int64_t splits = 0; !rest.empty(); ++splits) {
    if (splits == maxsplit) return out.push_back(rest);
    size_t n = 0;
    while (n < rest.size() && !space_at(rest.substr(n))) ++n;
    out.push_back(rest.substr(0, n));
    rest = without_leading_space(rest.substr(n));
  }
}

void split_at(std::string_view delimiter, std::string_view rest, int64_t maxsplit, Parts& out) {
  for (int64_t splits = 0; splits != maxsplit; ++splits) {
    const size_t at = rest.find(delimiter);
    if (at == std::string_view::npos) break;
    out.push_back(rest.substr(0, at));
    rest.remove_prefix(at + delimiter.size());
  }
  out.push_back(rest);
}

Status compute(const Params& p, Call& call) {
  const auto* x = call.in<std::string>(0);
  const int64_t n = call.count(0);
  Parts parts;                                               // of all strings
  std::vector<size_t> first(static_cast<size_t>(n) + 1, 0);  // of each string in `parts`
  size_t longest = 0;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    if (p.delimiter.empty())
      split_at_space(x[i], p.maxsplit, parts);
    else
      split_at(p.delimiter, x[i], p.maxsplit, parts);
    first[i + 1] = parts.size();
    longest = std::max(longest, first[i + 1] - first[i]);
    if (call.cancelled()) return call.stopped();
  }
  DimVec<int64_t> dims(call.shape(0).dims());
  if (dims.full()) return call.refuse(0, "a tensor of at most {} dimensions", kMaxRank - 1);
  dims.push(static_cast<int64_t>(longest));
  TRY_ASSIGN(shape, Shape::checked(dims.span()));
  if (call.wants(0)) {
    TRY_ASSIGN(y, call.allocate<std::string>(0, std::move(shape)));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      for (size_t k = first[i]; k < first[i + 1]; ++k) y[i * longest + k - first[i]] = parts[k];
  }
  if (call.wants(1)) {
    TRY_ASSIGN(z, call.allocate<int64_t>(1, Shape(call.shape(0))));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) z[i] = static_cast<int64_t>(first[i + 1] - first[i]);
  }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::string)}, {out_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kStringSplit{.domain = "",
                                 .name = "StringSplit",
                                 .versions = kVersions,
                                 .parse = parse_params<Params, parse>,
                                 .types = types,
                                 .kernels = kKernels};
extern constexpr OpInference kStringSplitInference{.shape = infer_shape};

}  // namespace tessera
