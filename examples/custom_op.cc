// An operator of one's own, in one file: a bank of filters that slides over a signal.
//
//   y[batch, filters, (samples - width) / stride + 1] = FilterBank(x[batch, samples], taps[filters, width])
//
// The class says all there is: attributes, types, shapes over symbols, arithmetic, and the layout it wants its constant
// taps in. main() makes a model with one node of it, loads the model and runs it.
#include <cstdio>
#include <cstring>
#include <string>

#include "tessera/op.h"

namespace {

namespace op = tessera::op;

struct FilterBank {
  static constexpr op::About kAbout{"example.signal", "FilterBank"};
  explicit FilterBank(const op::Attributes& a) : stride(a.get<int64_t>("stride", 1)) {
    if (stride < 1) op::refuse("stride is " + std::to_string(stride) + ", wanted at least 1");
  }

  void types(op::Types& t) const {
    t.count(2, 2);
    t.expect<float>(0);
    t.expect<float>(1);
    t.give<float>(0);
  }

  void shape(op::Shapes& s) const {
    const op::Dims x = s.input(0, 2), taps = s.input(1, 2);
    s.set(0, {x[0], taps[0], (x[1] - taps[1]) / stride + 1});
  }

  // Taps as [width, filters]: the innermost loop then reads and writes neighbours.
  static constexpr op::Packing kPacking{1, tessera::ElementType::f32, "width by filters"};
  int64_t packed_bytes(const tessera::Shape& taps) const noexcept {
    return static_cast<int64_t>(sizeof(float)) * taps[0] * taps[1];
  }
  void pack(const tessera::Shape& taps, const void* from, void* to) const noexcept {
    for (int64_t f = 0; f < taps[0]; ++f)
      for (int64_t k = 0; k < taps[1]; ++k)
        static_cast<float*>(to)[k * taps[0] + f] = static_cast<const float*>(from)[f * taps[1] + k];
  }

  void compute(op::Call& c) const {
    const tessera::Shape x_shape = c.shape(0), taps_shape = c.shape(1);
    const int64_t samples = x_shape[1], filters = taps_shape[0], width = taps_shape[1];
    const int64_t steps = (samples - width) / stride + 1;
    std::vector<float> own;
    const float* taps = c.packed<float>(1);
    if (!taps) {  // not a constant: packed for this run
      own.resize(static_cast<size_t>(filters * width));
      pack(taps_shape, c.input<float>(1).data(), own.data());
      taps = own.data();
    }
    const float* x = c.input<float>(0).data();
    float* y = c.output<float>(0).data();
    c.parallel(static_cast<size_t>(x_shape[0]), [&](size_t b) noexcept {
      const float* row = x + static_cast<int64_t>(b) * samples;
      float* out = y + static_cast<int64_t>(b) * filters * steps;
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t f = 0; f < filters; ++f) {
          float sum = 0;
          for (int64_t k = 0; k < width; ++k) sum += row[t * stride + k] * taps[k * filters + f];
          out[f * steps + t] = sum;
        }
    });
  }

  int64_t stride;
};

// The bytes of a model file, field by field; the numbers are those of onnx.proto.
std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string text(int field, const std::string& value) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string size(int64_t n) { return text(1, number(1, static_cast<uint64_t>(n))); }
std::string size(const char* name) { return text(1, text(2, name)); }
std::string value(const std::string& name, const std::string& dims) {
  return text(1, name) + text(2, text(1, number(1, 1) + text(2, dims)));  // of type float
}

std::string model() {
  const float taps[2][3] = {{1, 1, 1}, {-1, 0, 1}};  // a sum and a slope
  const std::string raw(reinterpret_cast<const char*>(taps), sizeof taps);
  const std::string stride = text(1, "stride") + number(3, 2) + number(20, 2);
  const std::string node = text(1, "x") + text(1, "taps") + text(2, "y") + text(3, "filter") + text(4, "FilterBank") +
                           text(5, stride) + text(7, "example.signal");
  const std::string weight = number(1, 2) + number(1, 3) + number(2, 1) + text(8, "taps") + text(9, raw);
  const std::string graph = text(1, node) + text(2, "signal") + text(5, weight) +
                            text(11, value("x", size("batch") + size("samples"))) +
                            text(12, value("y", size("batch") + size(2) + size("steps")));
  return number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, 17)) +
         text(8, text(1, "example.signal") + number(2, 1));
}

}  // namespace

int main() {
  try {
    tessera::Options options;
    options.configure = op::add<FilterBank>;
    const std::string bytes = model();
    tessera::Session session(bytes.data(), bytes.size(), options);
    std::printf("%s", session.explain().c_str());

    const tessera::Tensor x({1, 7}, {0.0f, 1.0f, 2.0f, 3.0f, 5.0f, 8.0f, 13.0f});
    const tessera::Outputs y = session.run({{"x", x}});
    for (const float v : y["y"].as<float>()) std::printf("%g ", v);
    std::printf("\n");
    return 0;
  } catch (const tessera::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
