// F32 functions of whole contiguous rows: x is `rows` rows of `cols` elements each, one after the other.
//
// Sums run in an order that depends on cols (and the target) alone. NaNs propagate everywhere.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

// y = exp(x - max) / sum(exp(x - max)) per row; a row of -inf, or one that holds +inf or NaN, gives NaN. y may be x.
void softmax_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols);
// y = x - max - log(sum(exp(x - max))) per row. y may be x.
void log_softmax_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols);

struct NormRows {
  const float* scale = nullptr;  // cols elements, or null for ones
  const float* bias = nullptr;   // cols elements, or null for zeros
  float epsilon = 1e-5f;
  float* mean = nullptr;     // if not null, gets each row's mean (layer norm only)
  float* inv_std = nullptr;  // if not null, gets each row's 1 / sqrt(variance + epsilon)
};

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, the variance from centred values. y may be x.
void layer_norm_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols,
                     const NormRows& norm);
// y = x / sqrt(mean(x^2) + epsilon) * scale + bias. y may be x.
void rms_norm_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols,
                   const NormRows& norm);

enum class RowReduce : unsigned char { sum, mean, sum_abs, sum_square, max, min };

// y[r] = the reduction of row r. Of no elements: sums 0, mean NaN, max -inf, min +inf.
void reduce_rows(Target target, int threads, RowReduce op, const float* x, float* y, int64_t rows, int64_t cols);

}  // namespace tessera
