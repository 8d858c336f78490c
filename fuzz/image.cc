// Any bytes as an image: read its header and, if it is small, its pixels.
#include <cstdint>
#include <vector>

#include "companions/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TesseraImage& library = *tessera_image(kTesseraImageVersion);
  TesseraImageHeader header{};
  char message[256] = "";
  const int found = library.header(data, size, 1 << 16, &header, message, sizeof message);
  if ((found == kTesseraImageOk) == (message[0] != 0)) __builtin_trap();
  if (found != kTesseraImageOk) return 0;
  for (const int format : {kTesseraRgb, kTesseraGray}) {
    std::vector<uint8_t> out(static_cast<size_t>(header.width * header.height) * (format == kTesseraGray ? 1 : 3));
    const int read = library.decode(data, size, &header, format, out.data(), message, sizeof message);
    if ((read == kTesseraImageOk) == (message[0] != 0)) __builtin_trap();
  }
  return 0;
}
