// BitCast — the same bits read as another type of the same width.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  DType to = DType::undefined;
};
Status parse(Attrs& a, Params& p) {
  a.get("to", p.to);
  if (p.to == DType::undefined || p.to == DType::string) return a.refuse("to", "an element type other than string");
  return {};
}

void types(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->to, Kind::tensor}; }

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.dtype(0) == DType::string || bits_of(c.dtype(0)) != bits_of(p.to))
    return c.refuse(0, format("a type of {} bits, as {} has", bits_of(p.to), name_of(p.to)));
  return c.set(0, c.dims(0));
}

Status compute(Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (y) copy_elements(call.dtype(0), call.in(0), 0, y, 0, call.count(0));
  return {};
}

constexpr TypeSet kTypeSet = kEveryType - set_of(DType::string);
constexpr TypeRule kTypes[] = {{in_arg(0), kTypeSet}, {out_arg(0), kTypeSet}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {26};

}  // namespace

extern constexpr Op kBitCast{.domain = "",
                             .name = "BitCast",
                             .versions = kVersions,
                             .parse = parse_params<Params, parse>,
                             .types = types,
                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                             .kernels = kKernels,
                             .view = 0};
extern constexpr OpInference kBitCastInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
