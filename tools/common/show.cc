#include "common/show.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/convert.h"

namespace tessera::cli {
namespace {

std::string with_digits(double v, std::string_view unit) {
  char text[64];
  const int digits = v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %.*s", digits, v, static_cast<int>(unit.size()), unit.data());
  return text;
}

std::string one_value(const Tensor& t, int64_t i) {
  char text[64];
  if (t.dtype() == DType::string) return quote(t.values<std::string>()[static_cast<size_t>(i)]);
  if (t.dtype() == DType::boolean) return t.values<uint8_t>()[static_cast<size_t>(i)] ? "true" : "false";
  if (kInts.has(t.dtype()) || kSubByteInts.has(t.dtype())) {
    int64_t v = 0;
    decode(t.dtype(), t.data(), i, 1, &v);
    return t.dtype() == DType::u64 ? format("{}", static_cast<uint64_t>(v)) : format("{}", v);
  }
  if (kComplex.has(t.dtype())) {
    double parts[2];
    decode(t.dtype() == DType::c64 ? DType::f32 : DType::f64, t.data(), 2 * i, 2, parts);
    std::snprintf(text, sizeof text, "%.6g%+.6gi", parts[0], parts[1]);
    return text;
  }
  double v = 0;
  decode(t.dtype(), t.data(), i, 1, &v);
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

bool has_numbers(const Tensor& t) {
  return kFloats.has(t.dtype()) || kInts.has(t.dtype()) || t.dtype() == DType::boolean;
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return format("{} B", bytes);
  double v = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; v >= 999.5 && unit + 1 < std::size(kUnits); ++unit) v /= 1000;
  return with_digits(v, kUnits[unit]);
}

std::string human_time(double nanoseconds) {
  constexpr std::string_view kUnits[] = {"ns", "us", "ms", "s"};
  size_t unit = 0;
  for (; nanoseconds >= 999.5 && unit + 1 < std::size(kUnits); ++unit) nanoseconds /= 1000;
  return with_digits(nanoseconds, kUnits[unit]);
}

std::string human_count(int64_t n) {
  std::string out = format("{}", n);
  for (size_t at = out.size(); at > 3 + (n < 0 ? 1u : 0u);) out.insert(at -= 3, 1, ',');
  return out;
}

std::string first_values(const Value& value, int64_t most) {
  if (const Tensor* t = value.tensor()) {
    const int64_t n = t->count();
    if (t->shape().rank() == 0) return one_value(*t, 0);
    std::string out = "[";
    for (int64_t i = 0; i < std::min(n, most); ++i) out += (i ? ", " : "") + one_value(*t, i);
    return out + (n > most ? format(", ... {} in all]", n) : std::string("]"));
  }
  if (const Sequence* s = value.sequence()) {
    std::string out = "[";
    for (size_t i = 0; i < s->items.size() && i < 3; ++i)
      out += (i ? ", " : "") + s->items[i].describe() + " " + first_values(s->items[i], 4);
    return out + (s->items.size() > 3 ? ", ...]" : "]");
  }
  if (const Map* m = value.map())
    return format("{} entries", std::visit([](const auto& entries) { return entries.size(); }, m->entries));
  return {};
}

std::optional<std::vector<double>> probabilities(const Tensor& tensor) {
  const int64_t n = tensor.count();
  if (!kFloats.has(tensor.dtype()) || n < 2 || n > 1000000) return {};
  if (std::find(tensor.shape().dims().begin(), tensor.shape().dims().end(), n) == tensor.shape().dims().end())
    return {};
  std::vector<double> p(static_cast<size_t>(n));
  decode(tensor.dtype(), tensor.data(), 0, n, p.data());
  double sum = 0;
  for (const double v : p) {
    if (!(v >= 0 && v <= 1 + 1e-6)) return {};
    sum += v;
  }
  if (std::fabs(sum - 1) > 1e-2) return {};
  return p;
}

std::string top_classes(const std::vector<double>& p, size_t most) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  most = std::min(most, p.size());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  std::string out;
  for (size_t i = 0; i < most; ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%zu (%.1f %%)", i ? ", " : "", order[i], 100 * p[order[i]]);
    out += text;
  }
  return out;
}

std::string bar_chart(const std::vector<double>& p) {
  constexpr int kWidth = 40;
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string out;
  for (size_t i = 0; i < p.size(); ++i) {
    const int eighths = static_cast<int>(std::lround(std::clamp(p[i], 0.0, 1.0) * kWidth * 8));
    char text[32];
    std::snprintf(text, sizeof text, "  %3zu ", i);
    out += text;
    for (int k = 0; k < eighths / 8; ++k) out += "█";
    out += kEighths[eighths % 8];
    std::snprintf(text, sizeof text, " %.1f %%\n", 100 * p[i]);
    out += text;
  }
  return out;
}

std::optional<std::string> picture(const Tensor& tensor) {
  constexpr int64_t kWidest = 64, kSmall = 16, kMiddle = 32, kLargest = int64_t{1} << 24;
  constexpr std::string_view kShades[] = {" ", "░", "▒", "▓", "█"};
  const int rank = tensor.shape().rank();
  if (!has_numbers(tensor) || rank < 2 || rank > 4 || tensor.count() < 4 || tensor.count() > kLargest) return {};
  if (tensor.shape().count(0, rank - 2) != 1) return {};
  const int64_t height = tensor.shape()[rank - 2], width = tensor.shape()[rank - 1];
  if (height < 2 || width < 2) return {};
  std::vector<float> pixels(static_cast<size_t>(tensor.count()));
  decode(tensor.dtype(), tensor.data(), 0, tensor.count(), pixels.data());
  const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
  const float base = *low, range = *high - *low;
  if (!(range > 0)) return {};
  // Characters are about twice as high as wide.
  const int64_t columns = width <= kSmall ? 4 * width : width <= kMiddle ? 2 * width : std::min(width, kWidest);
  const int64_t rows = std::max<int64_t>(1, columns * height / (2 * width));
  std::string out;
  for (int64_t r = 0; r < rows; ++r) {
    out += "  ";
    const int64_t y0 = r * height / rows, y1 = std::max(y0 + 1, (r + 1) * height / rows);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t x0 = c * width / columns, x1 = std::max(x0 + 1, (c + 1) * width / columns);
      double sum = 0;
      for (int64_t y = y0; y < y1; ++y)
        for (int64_t x = x0; x < x1; ++x) sum += pixels[static_cast<size_t>(y * width + x)] - base;
      const double level = sum / static_cast<double>((y1 - y0) * (x1 - x0)) / range;
      out += kShades[std::isfinite(level) ? std::clamp(static_cast<int>(level * 5), 0, 4) : 0];
    }
    out += '\n';
  }
  return out;
}

}  // namespace tessera::cli
