// Where — x where the condition holds, else y, all three broadcast together. Any type, moved by its size.
#include "ops/elementwise.h"

namespace tessera {
namespace {

template <class T>
Status compute(Call& call) {
  const uint8_t* condition = call.in<uint8_t>(0);
  const T *x = call.in<T>(1), *y = call.in<T>(2);
  T* out = call.out<T>(0);
  const std::span<const int64_t> inputs[] = {call.shape(0).dims(), call.shape(1).dims(), call.shape(2).dims()};
  BroadcastRows(call.out_shape(0), inputs).run(call.threads(), [&](const BroadcastRows::Row& r) {
    const uint8_t* c = condition + r.in[0];
    const T *px = x + r.in[1], *py = y + r.in[2];
    for (int64_t i = 0; i < r.n; ++i) out[r.out + i] = c[i * r.step[0]] ? px[i * r.step[1]] : py[i * r.step[2]];
  });
  return {};
}

// A complex number is aligned as its parts are.
template <class Part>
struct Pair {
  Part parts[2];
};

template <DType... D>
constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::boolean)}, {in_arg(1) | in_arg(2) | out_arg(0), set_of(D...)}};
constexpr Kernel kKernels[] = {
    {kTypes<DType::f32, DType::i32, DType::u32>, compute_plain<compute<uint32_t>>},
    {kTypes<DType::f64, DType::i64, DType::u64>, compute_plain<compute<uint64_t>>},
    {kTypes<DType::c64>, compute_plain<compute<Pair<uint32_t>>>},
    {kTypes<DType::f16, DType::bf16, DType::i16, DType::u16>, compute_plain<compute<uint16_t>>},
    {kTypes<DType::i8, DType::u8, DType::boolean, DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz,
            DType::f8e8m0>,
     compute_plain<compute<uint8_t>>},
    {kTypes<DType::c128>, compute_plain<compute<Pair<uint64_t>>>},
    {kTypes<DType::string>, compute_plain<compute<std::string>>}};
constexpr int16_t kVersions[] = {9, 16};

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  TRY(shape_broadcast(params, c));
  const auto condition = c.content(0), x = c.content(1), y = c.content(2);
  if (!condition || !x || !y) return {};
  const size_t n = std::max({condition->size(), x->size(), y->size()});
  std::vector<Dim> out;
  const auto at = [&](std::span<const Dim> list, size_t i) { return list.size() == 1 ? list[0] : list[i]; };
  const std::span<const Dim> lists[] = {*condition, *x, *y};
  for (int i = 0; i < 3; ++i)
    if (lists[i].size() != 1 && (lists[i].size() != n || c.rank(i) != 1)) return {};
  for (size_t i = 0; i < n; ++i) {
    const Dim chosen = at(*condition, i);
    if (!chosen.known()) return {};
    out.push_back(chosen.value() ? at(*x, i) : at(*y, i));
  }
  c.set_content(0, out);
  return {};
}

}  // namespace

extern constexpr Op kWhere{.domain = "",
                           .name = "Where",
                           .versions = kVersions,
                           .types = type_of_input<1>,
                           .shape = shape_broadcast<int64_t>,
                           .kernels = kKernels,
                           .inplace = in_arg(1) | in_arg(2)};
extern constexpr OpInference kWhereInference{.shape = infer_shape};

}  // namespace tessera
