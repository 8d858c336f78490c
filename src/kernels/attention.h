// Steps of attention over the rows of one head, which are F32, F16 or BF16 as they lie in memory; sums are F32.
//
// Every sum runs in an order that depends on the sizes (and the target) alone. Single-threaded: the caller cuts.
#pragma once
#include <cstdint>

#include "base/cpu.h"
#include "kernels/gemm.h"

namespace tessera {

// Keys or values of one head, borrowed: row i starts at element i * step.
struct HeadRows {
  const void* data;
  PanelType type;
  int64_t step;
};

// scores[r * ld + i] = q[r * size ..] times row i of the keys, for r < rows and i < n. For a few queries: keys are read
// once for every four.
void head_products(Target target, const float* q, int64_t rows, int64_t size, const HeadRows& keys, int64_t n,
                   float* scores, int64_t ld);

// y[r * size ..] += the sum of weights[r * ld + i] times row i of the values, for r < rows and i < n.
void head_sums(Target target, const float* weights, int64_t ld, int64_t rows, const HeadRows& values, int64_t n,
               int64_t size, float* y);

// to[r * to_step ..] = factors[r * factor_step] times row r, for `rows` rows of `size` elements: rows of any type as
// floats, and floats as rows of any type, rounded to nearest even. Rows of `to` must not overlap `from`.
void load_rows(Target target, const HeadRows& from, int64_t rows, int64_t size, const float* factors,
               int64_t factor_step, float* to, int64_t to_step);
void store_rows(Target target, const float* from, int64_t from_step, int64_t rows, int64_t size, const float* factors,
                int64_t factor_step, PanelType type, void* to, int64_t to_step);

// The rows as panels of gemm_f32: keys as the columns of a matrix of `size` rows, values as the rows of one of n rows.
// Columns beyond the last are zeros.
void pack_keys(Target target, const HeadRows& keys, int64_t n, int64_t size, float* panels);
void pack_values(Target target, const HeadRows& values, int64_t n, int64_t size, float* panels);

// x = exp(x - max(x, start)) in place, for each of `rows` rows of n; factors[r] = one over the sum of them and of
// exp(start - that max). Numbers below the least normal one are zeros. A row of -inf with start -inf gives zeros and
// the factor 0; NaN or +inf give NaN.
void exp_rows(Target target, float* x, int64_t ld, int64_t rows, int64_t n, float start, float* factors);

// Turns pairs of elements by the angles of which `cos` and `sin` hold `half`: neighbours if interleaved, else element i
// and element half + i.
void rotate_head(Target target, float* x, const float* cos, const float* sin, int64_t half, bool interleaved);

}  // namespace tessera
