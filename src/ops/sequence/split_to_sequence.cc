// SplitToSequence — a tensor cut into pieces along an axis.
#include "ops/movement.h"
#include "ops/sequence/sequences.h"

namespace tessera {
namespace {

// A tensor without elements can have any length: more pieces than this serve nobody.
constexpr int64_t kMostPieces = int64_t{1} << 24;

struct Params {
  int64_t axis = 0;
  bool keepdims = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  a.get("keepdims", p.keepdims);
  return {};
}

// The length of every piece.
Result<std::vector<int64_t>> pieces_of(const Call& call, int64_t length) {
  std::vector<int64_t> out;
  if (call.has(1) && call.shape(1).rank() == 1) {
    int64_t sum = 0;
    for (int64_t i = 0; i < call.count(1); ++i) {
      const int64_t n = call.integer(1, i);
      if (n < 0 || !checked_add(sum, n, &sum)) return call.refuse(1, "lengths of at least 0 (element {} is {})", i, n);
      out.push_back(n);
    }
    if (sum != length) return call.refuse(1, "lengths whose sum is {}", length);
    return out;
  }
  if (call.has(1) && call.shape(1).rank() != 0) return call.refuse(1, "a number or a list of numbers");
  const int64_t step = call.has(1) ? call.integer(1, 0) : 1;
  if (step < 1) return call.refuse(1, "a length of at least 1");
  const int64_t count = length / step + (length % step != 0);
  if (count > kMostPieces) return call.refuse(0, "at most {} pieces", kMostPieces);
  for (int64_t at = 0; at < length; at += step) out.push_back(std::min(step, length - at));
  return out;
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const auto axis = normalize_axis(p.axis, shape.rank());
  if (!axis) return call.refuse(0, "a tensor with axis {}", p.axis);
  TRY_ASSIGN(pieces, pieces_of(call, shape[*axis]));
  const Slices s = shape.around(*axis);
  auto out = std::make_shared<Sequence>();
  out->element = call.dtype(0);
  int64_t at = 0;
  for (const int64_t n : pieces) {
    if (call.cancelled()) return call.stopped();
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims[static_cast<size_t>(*axis)] = n;
    if (!p.keepdims && !call.has(1)) dims.erase(dims.begin() + *axis);
    TRY_ASSIGN(t, Tensor::allocate(call.dtype(0), Shape(dims)));
    clear_sub_byte(t.dtype(), t.mutable_data(), t.count());
    for (int64_t o = 0; o < s.outer; ++o)
      copy_elements(t.dtype(), call.in(0), (o * s.length + at) * s.inner, t.mutable_data(), o * n * s.inner,
                    n * s.inner);
    out->items.push_back(std::move(t));
    at += n;
  }
  call.set(0, std::move(out));
  return {};
}

Status infer(const ir::Node&, const void* params, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  if (!in[0] || !in[0]->shape) return {};
  const auto axis = normalize_axis(p.axis, in[0]->rank());
  if (!axis) return invalid("input 0 is {}, wanted a tensor with axis {}", in[0]->str(), p.axis);
  std::vector<Dim> shape(*in[0]->shape);
  const bool single = in.size() < 2 || !in[1];
  if (single && !p.keepdims)
    shape.erase(shape.begin() + *axis);
  else
    shape[static_cast<size_t>(*axis)] = single ? Dim(1) : dims.fresh();
  out[0] = Fact::sequence(Fact::tensor(in[0]->dtype, std::move(shape)));
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 24};

}  // namespace

extern constexpr Op kSplitToSequence{.domain = "",
                                     .name = "SplitToSequence",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = type_sequence_of_input,
                                     .kernels = kKernels};
extern constexpr OpInference kSplitToSequenceInference{.infer = infer};

}  // namespace tessera
