// Cast, CastLike — every element as a number of another type, or as text.
#include "kernels/convert.h"
#include "ops/elementwise.h"
#include "ops/math/cast_text.h"
#include "ops/movement.h"

namespace tessera {
namespace {

constexpr TypeSet kCastable = kEveryType - kComplex;
constexpr TypeSet kWhole = kInts | kSubByteInts | set_of(DType::boolean);

struct Params {
  DType to = DType::undefined;  // of Cast
  bool saturate = true;
  E8M0Rounding rounding = E8M0Rounding::up;
};
Status parse_like(Attrs& a, Params& p) {
  constexpr std::string_view kModes[] = {"up", "down", "nearest"};
  int mode = 0;
  a.get("saturate", p.saturate);
  a.get_choice("round_mode", mode, kModes);
  p.rounding = static_cast<E8M0Rounding>(mode);
  return {};
}
Status parse(Attrs& a, Params& p) {
  a.get("to", p.to);
  TRY(a.done());
  if (!kCastable.has(p.to)) return a.refuse("to", "a type of real numbers, bool or string");
  return parse_like(a, p);
}
void types(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->to, Kind::tensor}; }
void types_like(TypeCall& c) { c.out[0] = {Kind::tensor, c.in[1].dtype, Kind::tensor}; }

constexpr int64_t kBlock = 512;

inline float narrow(float v) { return v; }
template <class T>
float narrow(T v) {
  return float_to_odd(v);
}

// Numbers of a middle type into elements of y.
template <class Mid>
void store(const Params& p, DType to, void* y, int64_t at, int64_t n, const Mid* v) {
  if (to == DType::f8e8m0) {
    auto* bytes = static_cast<uint8_t*>(y) + at;
    for (int64_t i = 0; i < n; ++i) bytes[i] = float_to_e8m0(narrow(v[i]), p.saturate, p.rounding);
  } else {
    encode(to, y, at, n, v, p.saturate);
  }
}
// The upper half of uint64 is not in int64, which only matters to floats.
void store(const Params& p, DType to, void* y, int64_t at, int64_t n, const uint64_t* v) {
  if (to == DType::f32) {
    std::copy_n(v, n, static_cast<float*>(y) + at);
  } else if (to == DType::f64) {
    std::copy_n(v, n, static_cast<double*>(y) + at);
  } else if (kWhole.has(to)) {
    encode(to, y, at, n, reinterpret_cast<const int64_t*>(v));
  } else {
    float numbers[kBlock];
    for (int64_t i = 0; i < n; ++i) numbers[i] = float_to_odd(v[i]);
    store(p, to, y, at, n, numbers);
  }
}

template <class Mid>
void convert_through(const Params& p, DType from, const void* x, DType to, void* y, int64_t begin, int64_t n) {
  Mid block[kBlock];
  for (int64_t at = begin; at < begin + n; at += kBlock) {
    const int64_t count = std::min(kBlock, begin + n - at);
    decode(from, x, at, count, block);
    store(p, to, y, at, count, block);
  }
}

// Elements [begin, begin + n), through a type that holds those of x exactly.
void convert(const Params& p, Target target, DType from, const void* x, DType to, void* y, int64_t begin, int64_t n) {
  const auto pair = [&](DType a, DType b) { return from == a && to == b; };
  const auto* halves = static_cast<const uint16_t*>(x);
  if (pair(DType::f32, DType::f16))
    return f32_to_f16(target, static_cast<const float*>(x) + begin, static_cast<uint16_t*>(y) + begin, n);
  if (pair(DType::f32, DType::bf16))
    return f32_to_bf16(target, static_cast<const float*>(x) + begin, static_cast<uint16_t*>(y) + begin, n);
  if (pair(DType::f16, DType::f32)) return f16_to_f32(target, halves + begin, static_cast<float*>(y) + begin, n);
  if (pair(DType::bf16, DType::f32)) return bf16_to_f32(target, halves + begin, static_cast<float*>(y) + begin, n);
  if (from == DType::u64) {
    for (int64_t at = begin; at < begin + n; at += kBlock)
      store(p, to, y, at, std::min(kBlock, begin + n - at), static_cast<const uint64_t*>(x) + at);
    return;
  }
  if (kWhole.has(from)) return convert_through<int64_t>(p, from, x, to, y, begin, n);
  if (from == DType::f64) return convert_through<double>(p, from, x, to, y, begin, n);
  convert_through<float>(p, from, x, to, y, begin, n);
}

// parse(text, &number) for every element, stored block by block.
template <class Mid, class F>
Status read_text(const Params& p, Call& call, F&& parse_one) {
  const auto* x = call.in<std::string>(0);
  Mid block[kBlock];
  for (int64_t at = 0, n = call.count(0); at < n; at += kBlock) {
    if (call.cancelled()) return call.stopped();
    const int64_t count = std::min(kBlock, n - at);
    for (int64_t i = 0; i < count; ++i)
      if (!parse_one(x[at + i], &block[i]))
        return call.refuse(0, "numbers as text (element {} is {})", at + i, quote(x[at + i]));
    store(p, call.out_dtype(0), call.out(0), at, count, block);
  }
  return {};
}

Status from_text(const Params& p, Call& call) {
  const DType to = call.out_dtype(0);
  if (to == DType::boolean)
    return read_text<int64_t>(p, call, [](const std::string& s, int64_t* v) {
      bool b = false;
      const bool ok = parse_bool(s, &b);
      *v = b;
      return ok;
    });
  if (to == DType::u64)
    return read_text<uint64_t>(
        p, call, [](const std::string& s, uint64_t* v) { return parse_integer(s, v, to_integer<uint64_t, double>); });
  if (kWhole.has(to))
    return read_text<int64_t>(
        p, call, [](const std::string& s, int64_t* v) { return parse_integer(s, v, to_integer<int64_t, double>); });
  if (to == DType::f32) return read_text<float>(p, call, parse_real<float>);
  return read_text<double>(p, call, parse_real<double>);
}

template <class Mid>
Status write_text(Call& call) {
  auto* y = call.out<std::string>(0);
  Mid block[kBlock];
  for (int64_t at = 0, n = call.count(0); at < n; at += kBlock) {
    if (call.cancelled()) return call.stopped();
    const int64_t count = std::min(kBlock, n - at);
    decode(call.dtype(0), call.in(0), at, count, block);
    for (int64_t i = 0; i < count; ++i) y[at + i] = number_text(block[i]);
  }
  return {};
}
Status to_text(Call& call) {
  const DType from = call.dtype(0);
  if (from == DType::u64) {
    std::transform(call.in<uint64_t>(0), call.in<uint64_t>(0) + call.count(0), call.out<std::string>(0),
                   number_text<uint64_t>);
    return {};
  }
  if (kWhole.has(from)) return write_text<int64_t>(call);
  return from == DType::f64 ? write_text<double>(call) : write_text<float>(call);
}

Status compute(const Params& p, Call& call) {
  const DType from = call.dtype(0), to = call.out_dtype(0);
  if (!call.out(0) || call.count(0) == 0) return {};
  clear_sub_byte(to, call.out(0), call.count(0));
  if (from == to) return copy_input(call);
  if (from == DType::string) return from_text(p, call);
  if (to == DType::string) return to_text(call);
  for_pieces(call, call.count(0),
             [&](int64_t begin, int64_t n) { convert(p, call.target(), from, call.in(0), to, call.out(0), begin, n); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), kCastable}, {out_arg(0), kCastable}};
constexpr TypeRule kTypesLike[] = {{in_arg(0), kCastable}, {in_arg(1) | out_arg(0), kCastable}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr Kernel kKernelsLike[] = {{kTypesLike, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 6, 9, 13, 19, 21, 23, 24, 25, 28};
constexpr int16_t kVersionsLike[] = {15, 19, 21, 23, 24, 25};

void keep_content(ShapeCall<Dim>& c, DType to) {
  const auto content = c.content(0);
  if (!content || !kIndexTypes.has(to)) return;
  for (const Dim& d : *content)
    if (to == DType::i32 && d.known() && d.value() != static_cast<int32_t>(d.value())) return;
  c.set_content(0, *content);
}
Status infer(const void* params, ShapeCall<Dim>& c) {
  TRY(shape_of_input<Dim>(params, c));
  keep_content(c, static_cast<const Params*>(params)->to);
  return {};
}
Status infer_like(const void* params, ShapeCall<Dim>& c) {
  TRY(shape_of_input<Dim>(params, c));
  keep_content(c, c.dtype(1));
  return {};
}

}  // namespace

extern constexpr Op kCast{.domain = "",
                          .name = "Cast",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .types = types,
                          .shape = shape_of_input<int64_t>,
                          .kernels = kKernels};
extern constexpr Op kCastLike{.domain = "",
                              .name = "CastLike",
                              .versions = kVersionsLike,
                              .parse = parse_params<Params, parse_like>,
                              .types = types_like,
                              .shape = shape_of_input<int64_t>,
                              .kernels = kKernelsLike,
                              .header_only = in_arg(1)};
extern constexpr OpInference kCastInference{.shape = infer};
extern constexpr OpInference kCastLikeInference{.shape = infer_like};

}  // namespace tessera
