// Any bytes as a file in ONNX Runtime's format: read it and, if that works, write it and read it again.
#include <cstdint>

#include "formats/ort/reader.h"
#include "formats/ort/writer.h"

using namespace tessera;

namespace {

Result<Model> read(const void* data, size_t size) {
  ExternalData external;
  return ort::read_model(borrow_bytes(data, size), external, std::make_shared<DimPool>(), &ort::kernel_types);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = read(data, size);
  if (!model.ok()) {
    if (model.status().message().empty()) __builtin_trap();
    return 0;
  }
  ort::WriteOptions options;
  options.extensions = true;
  const auto written = ort::write_model(*model, options);
  if (!written.ok()) return 0;  // a graph with a cycle, or values of unknown types
  if (!read(written->data(), written->size()).ok()) __builtin_trap();
  return 0;
}
