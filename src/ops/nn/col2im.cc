// Col2Im — blocks cut out of an image, laid back where they came from; where they overlap their elements are added.
#include <complex>

#include "ops/agree.h"
#include "ops/elementwise.h"
#include "ops/movement.h"
#include "ops/nn/window.h"

namespace tessera {
namespace {

// Larger numbers mean nothing and would overflow sums of products.
constexpr int64_t kMostImage = int64_t{1} << 48, kMostBlock = INT32_MAX;

template <class D>
Status check_lists(const Window& w, ShapeCall<D>& c, std::span<const D> image, std::span<const D> block) {
  const size_t n = image.size();
  if (n < 1 || n > kMaxRank - 3) return c.refuse(1, "a size for each spatial dimension");
  if (block.size() != n) return c.refuse(2, format("{} sizes, as input 1 has", n));
  for (const auto* list : {&w.strides, &w.dilations})
    if (!list->empty() && list->size() != n) return c.refuse(1, format("{} spatial dimensions", list->size()));
  if (!w.pads.empty() && w.pads.size() != 2 * n) return c.refuse(1, format("{} spatial dimensions", w.pads.size() / 2));
  for (const D& d : image)
    if (known(d) && (number(d) < 0 || number(d) > kMostImage))
      return c.refuse(1, format("sizes of at least 0 (one is {})", number(d)));
  for (const D& d : block)
    if (known(d) && (number(d) < 1 || number(d) > kMostBlock))
      return c.refuse(2, format("sizes of at least 1 (one is {})", number(d)));
  return {};
}

// Elements of a block, and blocks in an image; false if there is no room for a block or the product overflows.
template <class D>
bool count_blocks(const Window& w, std::span<const D> image, std::span<const D> block, D* taps, D* blocks) {
  *taps = *blocks = D(1);
  for (size_t i = 0; i < image.size(); ++i) {
    const int k = static_cast<int>(i);
    const D reach = (block[i] - D(1)) * D(w.dilation(k)) + D(1);
    const D room = image[i] + D(w.pad_begin(k) + w.pad_end(k)) - reach;
    if (known(room) && number(room) < 0) return false;
    if (!dim_product(*taps, block[i], taps)) return false;
    if (!dim_product(*blocks, floor_div(room, D(w.stride(k))) + D(1), blocks)) return false;
  }
  return true;
}

template <class D>
Status shape(const Window& w, ShapeCall<D>& c) {
  if (c.rank(0) != 3) return c.refuse(0, "a batch, channels times elements of a block, and blocks");
  if (c.rank(1) != 1) return c.refuse(1, "a size for each spatial dimension");
  if (c.rank(2) != 1) return c.refuse(2, "a size for each spatial dimension");
  const auto image = c.content(1), block = c.content(2);
  if (!image || !block) {
    const D n = c.dim(1, 0);
    return c.unknown(0, known(n) && number(n) < kMaxRank - 2 ? static_cast<int>(number(n)) + 2 : -1);
  }
  TRY(check_lists(w, c, *image, *block));
  D taps, blocks;
  if (!count_blocks(w, *image, *block, &taps, &blocks)) return c.refuse(2, "a block that fits in the image");
  if (!agree(c.dim(0, 2), blocks)) return c.refuse(0, format("{} blocks", number(blocks)));
  if (known(c.dim(0, 1)) && known(taps) && number(c.dim(0, 1)) % number(taps))
    return c.refuse(0, format("channels times the {} elements of a block", number(taps)));
  DimVec<D> out{c.dim(0, 0), floor_div(c.dim(0, 1), taps)};
  out.append(*image);
  return c.set(0, out);
}

// ---------------------------------------------------------------------------------------------- adding

template <class T>
struct Plus {
  void operator()(T& to, const T& v) const { to = static_cast<T>(to + v); }
};
template <>
struct Plus<bool> {
  void operator()(bool& to, bool v) const { to = to || v; }
};
// `met` says that a text came where there was one already.
struct PlaceText {
  bool* met;
  void operator()(std::string& to, const std::string& v) const {
    *met = *met || !to.empty();
    to = v;
  }
};

// Everything about one run: spatial dimension i of the output, a block and the grid of blocks.
struct Layout {
  int spatial;
  int64_t image[kMaxRank], block[kMaxRank], blocks[kMaxRank], stride[kMaxRank], dilation[kMaxRank], pad[kMaxRank];
  int64_t taps = 1, rows = 1, plane = 1;  // rows of blocks; elements of an image

  Layout(const Window& w, const Call& call) : spatial(call.out_shape(0).rank() - 2) {
    for (int i = 0; i < spatial; ++i) {
      image[i] = call.in<int64_t>(1)[i];
      block[i] = call.in<int64_t>(2)[i];
      stride[i] = w.stride(i);
      dilation[i] = w.dilation(i);
      slide(w, i, image[i], block[i], &blocks[i], &pad[i]);
      taps *= block[i];
      plane *= image[i];
      if (i + 1 < spatial) rows *= blocks[i];
    }
  }

  // Adds the blocks of one channel, [taps, rows, row], to its image.
  template <class T, class F>
  void add(const Call& call, const T* x, T* y, F put) const {
    const int last = spatial - 1;
    for (int64_t tap = 0; tap < taps && !call.cancelled(); ++tap) {
      int64_t at[kMaxRank], rest = tap, begin, end;
      for (int i = spatial; i-- > 0; rest /= block[i]) at[i] = rest % block[i] * dilation[i] - pad[i];
      inside(at[last], stride[last], image[last], blocks[last], &begin, &end);
      for (int64_t row = 0; row < rows; ++row, x += blocks[last]) {
        int64_t to = 0, step = image[last];
        bool within = true;
        rest = row;
        for (int i = last; i-- > 0 && within; rest /= blocks[i]) {
          const int64_t p = rest % blocks[i] * stride[i] + at[i];
          within = p >= 0 && p < image[i];
          if (within) to += p * step;
          step *= image[i];
        }
        for (int64_t b = begin; within && b < end; ++b) put(y[to + b * stride[last] + at[last]], x[b]);
      }
    }
  }
};

template <class T, class F>
void add_channels(const Call& call, const Layout& l, const T* x, T* y, F put) {
  const Shape& s = call.out_shape(0);
  const int64_t planes = s[0] * s[1], size = l.taps * call.shape(0)[2];
  for_blocks(call, dtype_of<T>, planes, size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !call.cancelled(); ++i) l.add(call, x + i * size, y + i * l.plane, put);
  });
}

template <class T>
Status add_all(const Window& w, Call& call) {
  T* y = call.out<T>(0);
  std::fill_n(y, call.out_count(0), T{});
  if (call.count(0) > 0 && call.out_count(0) > 0) add_channels(call, Layout(w, call), call.in<T>(0), y, Plus<T>{});
  return call.cancelled() ? call.stopped() : Status{};
}

// Texts cannot be added: blocks must not overlap.
Status place_texts(const Window& w, Call& call) {
  TRY_ASSIGN(memory, output_memory(call));
  auto* y = static_cast<std::string*>(memory);
  if (!y || call.count(0) == 0 || call.out_count(0) == 0) return {};
  bool met = false;
  const Layout l(w, call);
  const int64_t size = l.taps * call.shape(0)[2];
  for (int64_t i = 0; i * l.plane < call.out_count(0) && !call.cancelled(); ++i)
    l.add(call, call.in<std::string>(0) + i * size, y + i * l.plane, PlaceText{&met});
  if (met) return call.refuse(0, "texts whose blocks do not overlap");
  return call.cancelled() ? call.stopped() : Status{};
}

// Signed integers wrap like unsigned ones.
Status compute(const Window& w, Call& call) {
  switch (call.dtype(0)) {
    case DType::f64: return add_all<double>(w, call);
    case DType::c64: return add_all<std::complex<float>>(w, call);
    case DType::c128: return add_all<std::complex<double>>(w, call);
    case DType::boolean: return add_all<bool>(w, call);
    case DType::string: return place_texts(w, call);
    default: break;
  }
  switch (bits_of(call.dtype(0))) {
    case 8: return add_all<uint8_t>(w, call);
    case 16: return add_all<uint16_t>(w, call);
    case 32: return add_all<uint32_t>(w, call);
    default: return add_all<uint64_t>(w, call);
  }
}

constexpr TypeRule kFloatTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::f32), kHalfFloats},
                                    {in_arg(1) | in_arg(2), set_of(DType::i64)}};
constexpr TypeRule kOtherTypes[] = {
    {in_arg(0) | out_arg(0), kInts | kComplex | set_of(DType::f64, DType::boolean, DType::string)},
    {in_arg(1) | in_arg(2), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Window, add_all<float>>},
                               {kOtherTypes, compute_with<Window, compute>}};
constexpr int16_t kVersions[] = {18};

}  // namespace

extern constexpr Op kCol2Im{.domain = "",
                            .name = "Col2Im",
                            .versions = kVersions,
                            .parse = parse_params<Window, parse_window>,
                            .shape = shape_with<Window, int64_t, shape<int64_t>>,
                            .kernels = kKernels,
                            .shape_inputs = in_arg(1) | in_arg(2)};
extern constexpr OpInference kCol2ImInference{.shape = shape_with<Window, Dim, shape<Dim>>};

}  // namespace tessera
