// GatherBlockQuantized — Gather from data that is quantized in blocks along one axis, as numbers. Indices out of range
// give zeros.
#include "core/convert.h"
#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/movement.h"

namespace tessera {
namespace {
using namespace contrib;

enum Input { kData, kIndices, kScales, kZeros };
constexpr Arity kArity{in_arg(kData) | in_arg(kIndices) | in_arg(kScales), 4};
constexpr TypeSet kFloatData = kFloat8 | set_of(DType::f4e2m1);

struct Params {
  int64_t gather_axis = 0, quantize_axis = 1, block = 128, bits = 4;
};

Status parse(Attrs& a, Params& p) {
  a.get("gather_axis", p.gather_axis);
  a.get("quantize_axis", p.quantize_axis);
  a.get("block_size", p.block);
  a.get("bits", p.bits);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8) return a.refuse("bits", "2, 4 or 8");
  if (p.block != 0 && (p.block < 16 || p.block > INT32_MAX || (p.block & (p.block - 1))))
    return a.refuse("block_size", "0, or a power of two from 16 on");
  return {};
}

// Elements in a byte of uint8 data; 1 for types that are elements themselves.
int64_t packed(const Params& p, DType t) { return t == DType::u8 ? 8 / p.bits : 1; }

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(kData);
  const DType type = c.dtype(kData);
  const auto gather = normalize_axis(p.gather_axis, rank), quantize = normalize_axis(p.quantize_axis, rank);
  if (rank < 1 || !gather || !quantize)
    return c.refuse(kData, format("axes {} and {}", p.gather_axis, p.quantize_axis));
  const int64_t each = packed(p, type);
  if (type == DType::u8 && *gather != 0) return c.refuse(kData, "gather_axis 0 for uint8");
  if (each > 1 && (*gather == *quantize || *gather == rank - 1))
    return c.refuse(kData, "elements packed along another axis than is gathered");
  const bool real = kFloatData.has(type);
  if (p.block == 0 && !real) return c.refuse(kData, "a block_size of at least 16 for integers");
  if (c.has(kZeros) && real) return c.refuse(kZeros, "no zero points of floats");
  DimVec<D> dims(c.dims(kData));
  dims[rank - 1] = dims[rank - 1] * D(each);
  if (c.rank(kScales) != rank) return c.refuse(kScales, "as many dimensions as the data");
  for (int i = 0; i < rank; ++i) {
    const D d = c.dim(kScales, i);
    const D want = i != *quantize ? dims[i] : p.block == 0 ? D(1) : floor_div(dims[i] + D(p.block - 1), D(p.block));
    const bool spread = real && i != *quantize && known(d) && number(d) == 1;
    if (!spread && !agree(d, want)) return c.refuse(kScales, "a scale for each block of the data");
  }
  if (c.has(kZeros)) {
    bool good = c.rank(kZeros) == rank;
    for (int i = 0; good && i < rank; ++i) {
      const D s = c.dim(kScales, i);
      good = agree(c.dim(kZeros, i), i == rank - 1 ? floor_div(s + D(each - 1), D(each)) : s);
    }
    if (!good) return c.refuse(kZeros, "a zero point for each scale");
  }
  DimVec<D> out;
  for (int i = 0; i < rank; ++i) {
    if (i != *gather) {
      out.push(dims[i]);
      continue;
    }
    out.append(c.dims(kIndices));
  }
  if (rank - 1 + c.rank(kIndices) > kMaxRank) return c.refuse(kIndices, "fewer dimensions");
  return c.set(0, out);
}

class Gatherer {
 public:
  Gatherer(const Params& p, const Call& call) : p_(p), call_(call), type_(call.dtype(kData)), each_(packed(p, type_)) {
    const Shape &data = call.shape(kData), &scales = call.shape(kScales);
    const int rank = data.rank();
    gather_ = *normalize_axis(p.gather_axis, rank);
    quantize_ = *normalize_axis(p.quantize_axis, rank);
    dims_.assign(data.dims().begin(), data.dims().end());
    dims_.back() *= each_;
    steps_.resize(dims_.size());
    int64_t step = 1;
    for (int i = rank; i-- > 0; step *= scales[i]) steps_[static_cast<size_t>(i)] = scales[i] == 1 ? 0 : step;
    scale_columns_ = scales[rank - 1];
    for (int i = 0; i < gather_; ++i) outer_ *= dims_[static_cast<size_t>(i)];
    for (int i = gather_ + 1; i < rank; ++i) inner_ *= dims_[static_cast<size_t>(i)];
    inner_scale_.resize(static_cast<size_t>(inner_));
    for (int64_t i = 0; i < inner_; ++i) inner_scale_[static_cast<size_t>(i)] = scale_offset(i, gather_ + 1, rank);
  }

  void run(void* y, DType y_type) const {
    const int64_t n = call_.count(kIndices), range = dims_[static_cast<size_t>(gather_)];
    const int64_t chunks = outer_ * n, step = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, inner_));
    call_.parallel(ceil_div(chunks, step), [&](int64_t chunk, int) {
      std::vector<float> row(static_cast<size_t>(inner_));
      for (int64_t i = chunk * step; i < std::min(chunks, (chunk + 1) * step); ++i) {
        int64_t at = call_.integer(kIndices, i % n);
        if (at < 0) at += range;
        if (at < 0 || at >= range)
          std::fill(row.begin(), row.end(), 0.f);
        else
          read(i / n, at, row.data());
        encode(y_type, y, i * inner_, inner_, row.data());
      }
    });
  }

 private:
  // Where the scale lies of the element whose coordinates along axes [from, to) are the row-major number i.
  int64_t scale_offset(int64_t i, int from, int to) const {
    int64_t at = 0;
    for (int k = to; k-- > from; i /= dims_[static_cast<size_t>(k)]) {
      const int64_t c = i % dims_[static_cast<size_t>(k)];
      at += (k == quantize_ ? (p_.block ? c / p_.block : 0) : c) * steps_[static_cast<size_t>(k)];
    }
    return at;
  }

  float element(const void* data, int64_t i) const {
    if (each_ > 1)
      return static_cast<float>(static_cast<const uint8_t*>(data)[i / each_] >> (i % each_ * p_.bits) &
                                ((1 << p_.bits) - 1));
    float v;
    decode(type_, data, i, 1, &v);
    return v;
  }

  float zero_of(int64_t scale) const {
    if (!call_.has(kZeros)) return type_ == DType::u8 ? static_cast<float>(1 << (p_.bits - 1)) : 0;
    if (each_ == 1) return element(call_.in(kZeros), scale);
    // Packed along the last dimension, each row in bytes of its own.
    const int64_t row = scale / scale_columns_, bytes = ceil_div(scale_columns_, each_);
    return element(call_.in(kZeros), row * bytes * each_ + scale % scale_columns_);
  }

  // The elements of one index.
  void read(int64_t outer, int64_t index, float* row) const {
    const int64_t from = (outer * dims_[static_cast<size_t>(gather_)] + index) * inner_;
    const int64_t base = scale_offset(outer, 0, gather_) + scale_offset(index, gather_, gather_ + 1);
    int64_t last = -1;
    float scale = 0, zero = 0;
    for (int64_t i = 0; i < inner_; ++i) {
      const int64_t at = base + inner_scale_[static_cast<size_t>(i)];
      if (at != last) {
        decode(call_.dtype(kScales), call_.in(kScales), at, 1, &scale);
        zero = zero_of(at);
        last = at;
      }
      row[i] = (element(call_.in(kData), from + i) - zero) * scale;
    }
  }

  const Params& p_;
  const Call& call_;
  DType type_;
  int64_t each_, outer_ = 1, inner_ = 1, scale_columns_ = 1;
  int gather_, quantize_;
  std::vector<int64_t> dims_, steps_, inner_scale_;
};

Status compute(const Params& p, Call& call) {
  Gatherer(p, call).run(call.out(0), call.out_dtype(0));
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(kData) | in_arg(kZeros), set_of(DType::i4, DType::u4, DType::u8) | kFloatData},
                               {in_arg(kIndices), set_of(DType::i32, DType::i64)},
                               {in_arg(kScales) | out_arg(0), kHalfFloats | set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftGatherBlockQuantized{.domain = kDomain,
                                                   .name = "GatherBlockQuantized",
                                                   .versions = kVersions,
                                                   .parse = parse_checked<Params, kArity, parse>,
                                                   .types = type_of_input<kScales>,
                                                   .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                                   .kernels = kKernels};
extern constexpr OpInference kMicrosoftGatherBlockQuantizedInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
