// RandomUniform, RandomNormal and their Like forms, which take the shape (and, without dtype, the type) of an input.
#include "ops/elementwise.h"
#include "ops/random/random.h"

namespace tessera {
namespace {

struct Params {
  Shape shape;
  std::optional<DType> dtype;
  std::optional<float> seed;
  float first = 0, second = 1;  // low and high, or mean and scale
};

Status parse_common(Attrs& a, Params& p, const char* first, const char* second) {
  a.get("dtype", p.dtype);
  a.get("seed", p.seed);
  a.get(first, p.first);
  a.get(second, p.second);
  TRY(a.done());
  if (p.dtype && !kFloats.has(*p.dtype)) return a.refuse("dtype", "a type of floating-point numbers");
  return {};
}
Status parse_shape(Attrs& a, Params& p) {
  std::vector<int64_t> dims;
  a.get("shape", dims);
  TRY_ASSIGN(shape, Shape::checked(dims));
  p.shape = std::move(shape);
  if (!p.dtype) p.dtype = DType::f32;
  return {};
}
Status parse_uniform_like(Attrs& a, Params& p) { return parse_common(a, p, "low", "high"); }
Status parse_normal_like(Attrs& a, Params& p) { return parse_common(a, p, "mean", "scale"); }
Status parse_uniform(Attrs& a, Params& p) {
  TRY(parse_uniform_like(a, p));
  return parse_shape(a, p);
}
Status parse_normal(Attrs& a, Params& p) {
  TRY(parse_normal_like(a, p));
  return parse_shape(a, p);
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  c.out[0] = p.dtype ? TypeDesc{Kind::tensor, *p.dtype, Kind::tensor} : c.in[0];
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  DimVec<D> out;
  for (const int64_t d : p.shape.dims()) out.push(D(d));
  return c.set(0, out);
}

struct Uniform {
  static float draw(const RandomStream& r, int64_t i, float low, float high) {
    const float v = low + r.uniform_f32(i) * (high - low);
    return v < high ? v : std::nextafter(high, low);
  }
  static double draw(const RandomStream& r, int64_t i, double low, double high) {
    return low + r.uniform(i) * (high - low);
  }
};
struct Normal {
  template <class T>
  static T draw(const RandomStream& r, int64_t i, T mean, T scale) {
    return static_cast<T>(static_cast<double>(mean) + static_cast<double>(scale) * r.normal(i));
  }
};

template <class O, class T>
Status compute(const Params& p, Call& call) {
  const RandomStream random(call, p.seed);
  T* y = call.out<T>(0);
  for_pieces(call, call.out_count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n && !call.cancelled(); ++i)
      y[i] = O::draw(random, i, static_cast<T>(p.first), static_cast<T>(p.second));
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{out_arg(0), set_of(dtype_of<T>), widened_to<T>}};
template <class O>
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<O, float>>},
                               {kTypes<double>, compute_with<Params, compute<O, double>>}};
constexpr int16_t kVersions[] = {1, 22};

template <class O, Status (*Parse)(Attrs&, Params&)>
constexpr Op random(const char* name, bool like) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, Parse>,
          .types = types,
          .shape = like ? shape_of_input<int64_t> : shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels<O>,
          .header_only = in_arg(0),
          .random = true};
}

}  // namespace

extern constexpr Op kRandomUniform = random<Uniform, parse_uniform>("RandomUniform", false);
extern constexpr Op kRandomNormal = random<Normal, parse_normal>("RandomNormal", false);
extern constexpr Op kRandomUniformLike = random<Uniform, parse_uniform_like>("RandomUniformLike", true);
extern constexpr Op kRandomNormalLike = random<Normal, parse_normal_like>("RandomNormalLike", true);
extern constexpr OpInference kRandomUniformInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kRandomNormalInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kRandomUniformLikeInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kRandomNormalLikeInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
