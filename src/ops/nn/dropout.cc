// Dropout — the identity, except in training mode: then elements are zeroed with probability `ratio` and the others
// scaled up. A seed gives the mask of numpy's RandomState(seed).uniform(size) >= ratio.
#include <cmath>
#include <random>

#include "ops/elementwise.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  std::optional<int64_t> seed;
  bool trains = true;      // from version 12 on
  bool mask_of_x = false;  // before version 10 the mask has the type of the data
};
Status parse(Attrs& a, Params& p) {
  p.trains = a.version() >= 12;
  p.mask_of_x = a.version() < 10;
  if (p.trains) a.get("seed", p.seed);
  return {};
}

void types(TypeCall& c) {
  c.out[0] = c.in[0];
  if (c.out.size() < 2) return;
  c.out[1] = c.in[0];
  if (!static_cast<const Params*>(c.params)->mask_of_x) c.out[1].dtype = DType::boolean;
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  for (int i = 1; i < 3; ++i) {
    if (!c.has(i)) continue;
    const D n = c.count(i);
    if (known(n) && number(n) != 1) return c.refuse(i, "one element");
  }
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, c.dims(0)));
  return {};
}

Status identity(Call& call) {
  TRY(copy_input(call));
  if (void* mask = call.out(1)) {
    const int64_t one = 1;
    for (int64_t i = 0; i < call.count(0); ++i) encode(call.out_dtype(1), mask, i, 1, &one);
  }
  return {};
}

// The generator of numpy's RandomState: two words to a double.
double next_uniform(std::mt19937& generator) {
  const auto high = static_cast<double>(generator() >> 5), low = static_cast<double>(generator() >> 6);
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

template <class T>
Status compute(const Params& p, Call& call) {
  double ratio = 0.5;
  if (call.has(1)) decode(call.dtype(1), call.in(1), 0, 1, &ratio);
  if (!p.trains || !call.has(2) || !*call.in<bool>(2) || ratio == 0) return identity(call);
  if (!(ratio > 0 && ratio < 1)) return call.refuse(1, "a probability below 1");
  std::mt19937 generator(static_cast<uint32_t>(p.seed ? static_cast<uint64_t>(*p.seed) : call.seed()));
  const T factor = static_cast<T>(1 / (1 - ratio));
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  bool* mask = call.out<bool>(1);
  for (int64_t i = 0; i < call.count(0); ++i) {
    if (i % 65536 == 0 && call.cancelled()) return call.stopped();
    const bool keep = next_uniform(generator) >= ratio;
    if (y) y[i] = keep ? x[i] * factor : T(0);
    if (mask) mask[i] = keep;
  }
  return {};
}

constexpr TypeSet kRatio = kFloats | kFloat8;
template <class T>
constexpr TypeRule kTypes[] = {
    {in_arg(0) | out_arg(0), set_of(dtype_of<T>), std::is_same_v<T, float> ? kHalfFloats | kFloat8 : TypeSet{}},
    {in_arg(1), kRatio},
    {in_arg(2), set_of(DType::boolean)},
    {out_arg(1), kRatio | set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 6, 7, 10, 12, 13, 22};

}  // namespace

extern constexpr Op kDropout{.domain = "",
                             .name = "Dropout",
                             .versions = kVersions,
                             .parse = parse_params<Params, parse>,
                             .types = types,
                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                             .kernels = kKernels,
                             .inplace = in_arg(0),
                             .random = true};
extern constexpr OpInference kDropoutInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
