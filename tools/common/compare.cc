#include "common/compare.h"

#include <cmath>
#include <complex>

#include "core/convert.h"

namespace tessera::cli {
namespace {

bool close(double got, double want, const Tolerance& t) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  return std::fabs(got - want) <= t.atol + t.rtol * std::fabs(want);
}

std::string tensor_difference(const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype()) return format("type {} instead of {}", name_of(got.dtype()), name_of(want.dtype()));
  if (!(got.shape() == want.shape())) return format("shape {} instead of {}", got.shape().dims(), want.shape().dims());
  const int64_t n = got.count();
  if (want.dtype() == DType::string) {
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      if (got.values<std::string>()[i] != want.values<std::string>()[i])
        return format("element {} is {} instead of {}", i, quote(got.values<std::string>()[i]),
                      quote(want.values<std::string>()[i]));
    return {};
  }
  const bool exact = kInts.has(want.dtype()) || kSubByteInts.has(want.dtype()) || want.dtype() == DType::boolean;
  std::vector<double> a, b;
  if (kComplex.has(want.dtype())) {
    a.resize(static_cast<size_t>(2 * n));
    b.resize(a.size());
    const DType part = want.dtype() == DType::c64 ? DType::f32 : DType::f64;
    decode(part, got.data(), 0, 2 * n, a.data());
    decode(part, want.data(), 0, 2 * n, b.data());
  } else if (exact && bits_of(want.dtype()) == 64) {
    for (int64_t i = 0; i < n; ++i) {
      const auto x = got.values<int64_t>()[static_cast<size_t>(i)], y = want.values<int64_t>()[static_cast<size_t>(i)];
      if (x != y) return format("element {} is {} instead of {}", i, x, y);
    }
    return {};
  } else {
    a.resize(static_cast<size_t>(n));
    b.resize(a.size());
    decode(got.dtype(), got.data(), 0, n, a.data());
    decode(want.dtype(), want.data(), 0, n, b.data());
  }
  Tolerance t = tolerance;
  if (want.dtype() == DType::bf16) t.rtol = std::max(t.rtol, 0x1p-6);
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (exact ? a[i] != b[i] : !close(a[i], b[i], t))
      if (wrong++ == 0) first = i;
  if (!wrong) return {};
  return format("{} of {} elements differ, first element {}: {} instead of {}", wrong, a.size(), first, a[first],
                b[first]);
}

}  // namespace

std::string difference(const Value& got, const Value& want, const Tolerance& tolerance) {
  if (const Tensor* w = want.tensor()) {
    const Tensor* g = got.tensor();
    return g ? tensor_difference(*g, *w, tolerance) : format("{} instead of {}", got.describe(), want.describe());
  }
  if (const Sequence* w = want.sequence()) {
    const Sequence* g = got.sequence();
    if (!g || g->items.size() != w->items.size()) return format("{} instead of {}", got.describe(), want.describe());
    for (size_t i = 0; i < w->items.size(); ++i)
      if (std::string d = difference(g->items[i], w->items[i], tolerance); !d.empty())
        return format("item {}: {}", i, d);
    return {};
  }
  if (const Map* w = want.map()) {
    const Map* g = got.map();
    if (!g || g->entries.index() != w->entries.index()) return "another kind of map";
    return std::visit(
        [&](const auto& entries) -> std::string {
          const auto& other = std::get<std::decay_t<decltype(entries)>>(g->entries);
          if (entries.size() != other.size()) return format("{} entries instead of {}", other.size(), entries.size());
          for (const auto& [key, value] : entries) {
            const auto it = other.find(key);
            if (it == other.end()) return "a key is missing";
            if (std::string d = difference(it->second, value, tolerance); !d.empty()) return d;
          }
          return {};
        },
        w->entries);
  }
  return want.is_none() == got.is_none() ? "" : format("{} instead of {}", got.describe(), want.describe());
}

}  // namespace tessera::cli
