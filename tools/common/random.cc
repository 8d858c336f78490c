#include "common/random.h"

#include <cstring>

#include "core/convert.h"

namespace tessera::cli {
namespace {

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0; }

 private:
  uint64_t state_;
};

void fill(Tensor& t, Random& random) {
  const int64_t n = t.count();
  const DType dtype = t.dtype();
  void* data = t.mutable_data();
  if (dtype == DType::string) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<std::string*>(data)[i] = std::string(1, static_cast<char>('a' + random.next() % 26));
  } else if (kComplex.has(dtype)) {
    const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
    for (int64_t i = 0; i < 2 * n; ++i) {
      const double v = random.uniform();
      encode(part, data, i, 1, &v);
    }
  } else if (kInts.has(dtype) || kSubByteInts.has(dtype) || dtype == DType::boolean) {
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<int64_t>(random.next() >> 63);
      encode(dtype, data, i, 1, &v);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const double v = dtype == DType::f8e8m0 ? 1.0 : random.uniform();
      encode(dtype, data, i, 1, &v);
    }
  }
}

}  // namespace

Result<Value> random_value(const Fact& fact, const std::map<std::string, int64_t>& dims, uint64_t seed) {
  if (fact.kind == Kind::optional && fact.element) return random_value(*fact.element, dims, seed);
  if (fact.kind == Kind::sequence && fact.element) {
    auto list = std::make_shared<Sequence>();
    for (uint64_t i = 0; i < 2; ++i) {
      TRY_ASSIGN(item, random_value(*fact.element, dims, seed * 2 + i));
      list->items.push_back(std::move(item));
    }
    list->element = fact.element->dtype;
    return Value(std::move(list));
  }
  if (fact.kind != Kind::tensor || fact.dtype == DType::undefined)
    return not_implemented("there are no random values of type {}; give a file", fact.str());
  if (!fact.shape) return invalid("{} does not say how many dimensions it has; give a file", fact.str());
  std::vector<int64_t> sizes;
  for (const Dim& d : *fact.shape)
    sizes.push_back(d.evaluate([&](std::string_view symbol) {
      const auto it = dims.find(std::string(symbol));
      return it == dims.end() ? int64_t{1} : it->second;
    }));
  TRY_ASSIGN(shape, Shape::checked(sizes));
  TRY_ASSIGN(t, Tensor::allocate(fact.dtype, std::move(shape)));
  if (is_sub_byte(fact.dtype)) std::memset(t.mutable_data(), 0, static_cast<size_t>(t.bytes()));
  Random random(seed);
  fill(t, random);
  return Value(std::move(t));
}

}  // namespace tessera::cli
