// The discrete Fourier transform of any length in O(n log n): mixed radix for products of small primes, a convolution
// of power-of-two length (Bluestein) for the rest. Computed in double; T = float is for short transforms of complex
// floats, where it is as good as the elements are and rounds as the standard's cases do.
#pragma once
#include <memory>
#include <span>

#include "core/tensor.h"

namespace tessera {

// A longer transform than the data at hand is refused: lengths come from tensors.
inline constexpr int64_t kMostPaddedLength = int64_t{1} << 24;

// The longest transform that is computed in float, if its elements are floats.
inline constexpr int64_t kMostSingle = 16;

struct UnitRoot {
  double re, im;
};
// e^(2 pi i k / n) for 0 <= k < n, each part correct to the last bit or nearly so.
UnitRoot unit_root(int64_t k, int64_t n);

template <class T>
class Fft {
 public:
  struct Complex {
    T re, im;
  };

  // Tables for transforms of n >= 1 points. `inverse` is the sign of the exponent; nothing is scaled.
  static Result<Fft> make(int64_t n, bool inverse);

  int64_t length() const { return n_; }
  // Complex numbers of working memory that transform() needs.
  int64_t work() const { return convolution_ ? 2 * convolution_->n_ : n_; }
  // x[k] becomes the sum over j of x[j] e^(-+2 pi i j k / n). May run on several threads, each with its own memory.
  void transform(Complex* x, Complex* work) const;

 private:
  static Result<Tensor> roots(int64_t n, bool inverse);
  Status prepare_convolution();
  void mixed_radix(Complex* x, Complex* work) const;
  void convolve(Complex* x, Complex* work) const;
  void stage(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const;
  void stage_odd(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const;
  const Complex* table(const Tensor& t) const { return static_cast<const Complex*>(t.data()); }

  int64_t n_ = 0;
  T sign_ = -1;  // of the exponent
  int radices_[64];
  int stages_ = 0;
  Tensor roots_;  // e^(-+2 pi i k / n), k < n; without convolution
  // With convolution: the forward transform of its length, the chirp e^(-+pi i k k / n), and the chirp's conjugate
  // transformed and divided by that length.
  std::shared_ptr<const Fft> convolution_;
  Tensor chirp_, filter_;
};

}  // namespace tessera
