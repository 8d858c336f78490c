// Recognises a handwritten digit with the network of tests/models/demo.
//   main MODEL [IMAGE.npy]      prints the likeliest digit and how sure the network is of each
#include <tessera/tessera.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

// The floats at the end of a .npy file; the shape is the model's.
std::vector<float> read_image(const char* path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> image(count);
  const size_t size = count * sizeof(float);
  if (bytes.size() >= size)
    std::copy(bytes.end() - static_cast<std::ptrdiff_t>(size), bytes.end(), reinterpret_cast<char*>(image.data()));
  return image;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL [IMAGE.npy]\n", argv[0]);
    return 2;
  }
  try {
    tessera::Session session(argv[1]);
    const tessera::Description& input = session.inputs().front();
    std::printf("%s wants %s\n", input.name.c_str(), input.str().c_str());

    tessera::Shape shape = input.shape;
    std::replace(shape.begin(), shape.end(), int64_t{-1}, int64_t{1});
    size_t count = 1;
    for (const int64_t d : shape) count *= static_cast<size_t>(d);
    const std::vector<float> image = argc > 2 ? read_image(argv[2], count) : std::vector<float>(count);

    tessera::Outputs results = session.run({{input.name, tessera::Tensor(shape, image)}});
    const auto scores = results[0].as<float>();
    std::printf("likeliest: %td\n", std::max_element(scores.begin(), scores.end()) - scores.begin());
    for (size_t i = 0; i < scores.size(); ++i) std::printf("  %zu: %.4f\n", i, scores[i]);
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "error %d: %s\n", error.code(), error.what());
    return 1;
  }
}
