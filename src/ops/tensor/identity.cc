// Identity — the input, whatever it is.
#include "ops/movement.h"

namespace tessera {
namespace {

Status copy(Call& call) { return copy_input(call); }

// Sequences, maps and optionals, also those that hold a tensor.
Status hand_on(Call& call) {
  TRY_ASSIGN(v, call.take(0));
  call.set(0, std::move(v));
  return {};
}

constexpr TypeRule kTensors[] = {{in_arg(0) | out_arg(0), kEveryType}};
constexpr Kernel kKernels[] = {{kTensors, compute_plain<copy>}, {{}, compute_plain<hand_on>}};
constexpr int16_t kVersions[] = {1, 13, 14, 16, 19, 21, 23, 24, 25};

Status infer(const ir::Node&, const void*, DimPool&, std::span<const Fact* const> in, std::span<Fact> out) {
  out[0] = *in[0];
  return {};
}

}  // namespace

extern constexpr Op kIdentity{.domain = "",
                              .name = "Identity",
                              .versions = kVersions,
                              .shape = shape_of_input<int64_t>,
                              .kernels = kKernels,
                              .view = 0};
extern constexpr OpInference kIdentityInference{.infer = infer};

}  // namespace tessera
