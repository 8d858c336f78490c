// WordConvEmbedding — for each word (a row of characters, 0 where it has ended) the most that each filter finds of it,
// through tanh. A word of no characters gives zeros.
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

enum In { kWords, kFilters, kBias, kTable };
constexpr Arity kArity{in_arg(kWords) | in_arg(kFilters) | in_arg(kBias) | in_arg(kTable), 4};

struct Params {
  int64_t embedding = -1, window = -1, character = -1;  // -1: told by the shapes
};
Status parse(Attrs& a, Params& p) {
  a.get("embedding_size", p.embedding);
  a.get("conv_window_size", p.window);
  a.get("char_embedding_size", p.character);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto is = [](const D& d, int64_t n) { return n == -1 || agree(d, D(n)); };
  if (c.rank(kWords) != 2) return c.refuse(kWords, "[words, characters]");
  if (c.rank(kTable) != 2 || !is(c.dim(kTable, 1), p.character)) return c.refuse(kTable, "a row for each character");
  if (c.rank(kFilters) != 4 || !agree(c.dim(kFilters, 1), D(1)) || !is(c.dim(kFilters, 0), p.embedding) ||
      !is(c.dim(kFilters, 2), p.window) || !agree(c.dim(kFilters, 3), c.dim(kTable, 1)))
    return c.refuse(kFilters, "[filters, 1, window, size of a character]");
  if (!is_list(c, kBias, c.dim(kFilters, 0))) return c.refuse(kBias, "a number for each filter");
  const D window = c.dim(kFilters, 2), length = c.dim(kWords, 1);
  if (known(window) && known(length) && (number(window) < 1 || number(window) > number(length)))
    return c.refuse(kFilters, "a window that fits into a word");
  return c.set(0, DimVec<D>{c.dim(kWords, 0), c.dim(kFilters, 0)});
}

Status compute(Call& call) {
  const int64_t length = call.shape(kWords)[1], filters = call.shape(kFilters)[0], window = call.shape(kFilters)[2];
  const int64_t size = call.shape(kTable)[1], characters = call.shape(kTable)[0];
  call.parallel(call.shape(kWords)[0], [&](int64_t word, int) {
    const int32_t* ids = call.in<int32_t>(kWords) + word * length;
    float* y = call.out<float>(0) + word * filters;
    const int64_t used = ids[0] > 0 ? std::count_if(ids, ids + length, [](int32_t c) { return c > 0; }) : 0;
    std::fill_n(y, filters, used ? -1e12f : 0.f);
    if (used == 0 || call.cancelled()) return;
    const int64_t looked = std::max(used, window);
    std::vector<float> x(static_cast<size_t>(looked * size), 0.f);  // characters that the table lacks are zeros
    for (int64_t i = 0; i < looked; ++i)
      if (ids[i] >= 0 && ids[i] < characters)
        std::copy_n(call.in<float>(kTable) + ids[i] * size, size, x.data() + i * size);
    for (int64_t f = 0; f < filters; ++f) {
      const float* w = call.in<float>(kFilters) + f * window * size;
      for (int64_t at = 0; at <= looked - window; ++at) {
        float sum = 0;
        for (int64_t i = 0; i < window * size; ++i) sum += w[i] * x[static_cast<size_t>(at * size + i)];
        y[f] = std::max(y[f], std::tanh(sum + call.in<float>(kBias)[f]));
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr TypeRule kTypes[] = {{in_arg(kWords), set_of(DType::i32)},
                               {in_arg(kFilters) | in_arg(kBias) | in_arg(kTable) | out_arg(0), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};

}  // namespace

extern constexpr Op kMicrosoftWordConvEmbedding{.domain = kDomain,
                                                .name = "WordConvEmbedding",
                                                .versions = kVersions,
                                                .parse = parse_checked<Params, kArity, parse>,
                                                .types = type_always<DType::f32>,
                                                .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                                .kernels = kKernels};
extern constexpr OpInference kMicrosoftWordConvEmbeddingInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
