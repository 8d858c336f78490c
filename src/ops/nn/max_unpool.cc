// MaxUnpool — puts the elements back where MaxPool's indices say they came from; zeros elsewhere.
#include <cstring>

#include "ops/elementwise.h"
#include "ops/nn/window.h"

namespace tessera {
namespace {

Status parse(Attrs& a, Window& w) {
  TRY(parse_window(a, w));
  if (w.kernel.empty()) return a.refuse("kernel_shape", "a size for each spatial dimension");
  return {};
}

// What the pool's input had at least: the shape that the indices count in.
template <class D>
D unpooled(const Window& w, int i, const D& in) {
  return (in - D(1)) * D(w.stride(i)) + D(w.kernel[static_cast<size_t>(i)] - w.pad_begin(i) - w.pad_end(i));
}

template <class D>
Status shape(const Window& w, ShapeCall<D>& c) {
  TRY(check_spatial(w, c));
  bool same = c.rank(1) == c.rank(0);
  for (int i = 0; i < c.rank(0) && same; ++i)
    same = !known(c.dim(0, i)) || !known(c.dim(1, i)) || number(c.dim(0, i)) == number(c.dim(1, i));
  if (!same) return c.refuse(1, "the shape of input 0");
  DimVec<D> out{c.dim(0, 0), c.dim(0, 1)};
  for (int i = 0; i + 2 < c.rank(0); ++i) {
    const D in = c.dim(0, i + 2);
    if (known(in) && number(in) > (int64_t{1} << 60) / (w.stride(i) + 1)) return c.refuse(0, "smaller dimensions");
    out.push(unpooled(w, i, in));
    if (known(out[i + 2]) && number(out[i + 2]) < 0) return c.refuse(0, "a larger input for these pads");
  }
  if (!c.has(2)) return c.set(0, out);
  const auto wanted = c.content(2);
  if (!wanted) return c.unknown(0, c.rank(0));
  if (c.rank(2) != 1 || static_cast<int>(wanted->size()) != c.rank(0)) return c.refuse(2, "a size for each dimension");
  for (int i = 0; i < c.rank(0); ++i) {
    const D d = (*wanted)[static_cast<size_t>(i)];
    if (known(d) && known(out[i]) && number(d) < number(out[i]))
      return c.refuse(2, format("at least {} in dimension {}", number(out[i]), i));
    out[i] = d;
  }
  return c.set(0, out);
}

template <class T>
Status compute(const Window& w, Call& call) {
  const Shape &s = call.shape(0), &to = call.out_shape(0);
  const T* x = call.in<T>(0);
  const int64_t* index = call.in<int64_t>(1);
  T* y = call.out<T>(0);
  int64_t dims[kMaxRank], strides[kMaxRank], limit = 1;
  for (int i = 0; i < s.rank(); ++i) {
    dims[i] = i < 2 ? s[i] : unpooled(w, i - 2, s[i]);
    limit *= dims[i];
  }
  strides_of(to.dims(), strides);
  if (to.count()) std::memset(y, 0, static_cast<size_t>(to.count()) * sizeof(T));
  for (int64_t k = 0, n = s.count(); k < n; ++k) {
    if (index[k] < 0 || index[k] >= limit) return call.refuse(1, "indices from 0 to {} (got {})", limit - 1, index[k]);
    int64_t at = 0, rest = index[k];
    for (int i = s.rank(); i-- > 0; rest /= dims[i]) at += rest % dims[i] * strides[i];
    y[at] = x[k];
  }
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(1) | in_arg(2), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Window, compute<float>>},
                               {kTypes<double>, compute_with<Window, compute<double>>}};
constexpr int16_t kVersions[] = {9, 11, 22};

}  // namespace

extern constexpr Op kMaxUnpool{.domain = "",
                               .name = "MaxUnpool",
                               .versions = kVersions,
                               .parse = parse_params<Window, parse>,
                               .shape = shape_with<Window, int64_t, shape<int64_t>>,
                               .kernels = kKernels,
                               .shape_inputs = in_arg(2)};
extern constexpr OpInference kMaxUnpoolInference{.shape = shape_with<Window, Dim, shape<Dim>>};

}  // namespace tessera
