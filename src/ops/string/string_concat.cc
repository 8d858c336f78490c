// StringConcat — x followed by y, element by element, with broadcasting.
#include "ops/elementwise.h"

namespace tessera {
namespace {

Status compute(Call& call) {
  const std::string *x = call.in<std::string>(0), *y = call.in<std::string>(1);
  auto* z = call.out<std::string>(0);
  if (!z) return error(Code::fail, "there is no memory for {} strings", call.out_count(0));
  const std::span<const int64_t> inputs[] = {call.shape(0).dims(), call.shape(1).dims()};
  BroadcastRows(call.out_shape(0), inputs).run(call.threads(), [&](const BroadcastRows::Row& r) {
    for (int64_t i = 0; i < r.n; ++i) z[r.out + i] = x[r.in[0] + i * r.step[0]] + y[r.in[1] + i * r.step[1]];
  });
  return {};
}

constexpr Kernel kKernels[] = {{kAllSame<std::string>, compute_plain<compute>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kStringConcat{.domain = "",
                                  .name = "StringConcat",
                                  .versions = kVersions,
                                  .shape = shape_broadcast<int64_t>,
                                  .kernels = kKernels};
extern constexpr OpInference kStringConcatInference{.shape = shape_broadcast<Dim>};

}  // namespace tessera
