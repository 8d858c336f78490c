// BatchNormalization — every channel shifted and scaled by statistics: given ones, or in training those of the batch.
#include <vector>

#include "ops/nn/channel_norm.h"

namespace tessera {
namespace {

struct Params {
  float epsilon = 1e-5f;
  float momentum = 0.9f;
  bool training = false;
  bool spatial = true;  // false (before version 9): every position is a channel of its own
};

// Before version 14 naming more outputs than Y asks for training.
Status parse(Attrs& a, Params& p) {
  a.get("epsilon", p.epsilon);
  a.get("momentum", p.momentum);
  if (a.version() < 9) a.get("spatial", p.spatial);
  if (a.version() >= 14) return a.get("training_mode", p.training), Status{};
  bool is_test = false;
  if (a.version() < 7) a.get("is_test", is_test);
  const auto& outputs = a.node().outputs;
  for (size_t o = 1; o < outputs.size(); ++o) p.training = p.training || (outputs[o] != ir::kNone && !is_test);
  return {};
}

void types(TypeCall& c) {
  c.out[0] = c.in[0];
  for (size_t o = 1; o < c.out.size(); ++o) c.out[o] = c.in[3];
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank == 0) return c.refuse(0, "at least one dimension");
  D channels = rank == 1 ? D(1) : c.dim(0, 1);
  if (!p.spatial)
    for (int k = 2; k < rank; ++k) channels = channels * c.dim(0, k);
  for (int i = 1; i < 5; ++i) {
    const D n = c.count(i);
    if ((p.spatial && c.rank(i) != 1) || (known(n) && known(channels) && number(n) != number(channels)))
      return c.refuse(i, "one element per channel of input 0");
  }
  TRY(c.set(0, c.dims(0)));
  for (int o = 1; o < c.outputs(); ++o) TRY(c.set(o, c.dims(3)));
  return {};
}

struct Layout {
  int64_t batch, channels, inner;
};
Layout layout_of(const Params& p, const Shape& s) {
  const int rank = s.rank();
  if (rank == 1) return {s[0], 1, 1};
  if (p.spatial) return {s[0], s[1], s.count(2, rank)};
  return {s[0], s.count(1, rank), 1};
}

// Mean and variance of each channel over the batch.
template <class T>
void measure(const Call& call, const Layout& l, const T* x, T* mean, T* var) {
  call.parallel(l.channels, [&](int64_t c, int) {
    const auto total = static_cast<double>(l.batch * l.inner);
    const auto each = [&](auto&& fn) {
      for (int64_t n = 0; n < l.batch; ++n)
        for (int64_t i = 0; i < l.inner; ++i) fn(static_cast<double>(x[(n * l.channels + c) * l.inner + i]));
    };
    double sum = 0, squares = 0;
    each([&](double v) { sum += v; });
    const double m = sum / total;
    each([&](double v) { squares += (v - m) * (v - m); });
    mean[c] = static_cast<T>(m);
    var[c] = static_cast<T>(squares / total);
  });
}

// Outputs 1 and 2 are running statistics, 3 and 4 (before version 14) those of this batch.
template <class T>
void put_statistics(const Params& p, Call& call, const std::vector<T>& mean, const std::vector<T>& var) {
  const T keep = static_cast<T>(p.momentum);
  for (int o = 1; o < 5; ++o) {
    T* y = call.out<T>(o);
    if (!y) continue;
    const T* now = (o % 2 ? mean : var).data();
    const T* before = call.in<T>(o % 2 ? 3 : 4);
    for (int64_t c = 0; c < call.out_count(o); ++c) y[c] = o > 2 ? now[c] : before[c] * keep + now[c] * (1 - keep);
  }
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Layout l = layout_of(p, call.shape(0));
  const auto count = static_cast<size_t>(l.channels);
  const T *x = call.in<T>(0), *scale = call.in<T>(1), *bias = call.in<T>(2);
  std::vector<T> mean(call.in<T>(3), call.in<T>(3) + count), var(call.in<T>(4), call.in<T>(4) + count);
  if (p.training) measure(call, l, x, mean.data(), var.data());
  if (call.outputs() > 1) put_statistics(p, call, mean, var);
  // y = x * a + b
  std::vector<T> a(count), b(count);
  for (size_t c = 0; c < count; ++c) {
    a[c] = scale[c] / std::sqrt(var[c] + static_cast<T>(p.epsilon));
    b[c] = bias[c] - mean[c] * a[c];
  }
  T* y = call.out<T>(0);
  const bool flat = l.inner == 1;
  const int64_t rows = flat ? l.batch : l.batch * l.channels, cols = flat ? l.channels : l.inner;
  const int64_t each = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, cols));
  call.parallel(ceil_div(rows, each), [&](int64_t chunk, int) {
    for (int64_t r = chunk * each; r < std::min(rows, (chunk + 1) * each); ++r) {
      const int64_t c = flat ? 0 : r % l.channels;
      multiply_add(call.target(), x + r * cols, a.data() + c, b.data() + c, flat ? 1 : 0, y + r * cols, cols);
    }
  });
  return {};
}

constexpr uint32_t kStatistics = in_arg(3) | in_arg(4) | out_arg(1) | out_arg(2) | out_arg(3) | out_arg(4);
constexpr TypeSet kNarrower = kHalfFloats | set_of(DType::f32);
template <class T>
constexpr TypeSet kWidened = std::is_same_v<T, float> ? kHalfFloats : kNarrower;
template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), kWidened<T>},
                               {in_arg(1) | in_arg(2), set_of(dtype_of<T>), kWidened<T>},
                               {kStatistics, set_of(dtype_of<T>), kWidened<T>}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 6, 7, 9, 14, 15};

}  // namespace

extern constexpr Op kBatchNormalization{.domain = "",
                                        .name = "BatchNormalization",
                                        .versions = kVersions,
                                        .parse = parse_params<Params, parse>,
                                        .types = types,
                                        .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                        .kernels = kKernels,
                                        .inplace = in_arg(0)};
extern constexpr OpInference kBatchNormalizationInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
