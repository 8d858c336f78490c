// What libtessera_image.so offers: reading BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP images, as a table of C
// functions. Nothing crosses the border but plain data; nothing throws, prints or exits, whatever the bytes are; every
// function may be called from any thread.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr uint32_t kTesseraImageVersion = 1;

enum TesseraImageOutcome {
  kTesseraImageOk = 0,
  kTesseraImageUnreadable = 1,  // no image of a known format, or a damaged one
  kTesseraImageTooLarge = 2,
  kTesseraImageNoMemory = 3,
};

enum TesseraPixelFormat { kTesseraRgb = 0, kTesseraBgr = 1, kTesseraGray = 2 };

struct TesseraImageHeader {
  int64_t width, height;
  const char* format;  // "PNG"
};

struct TesseraImage {
  // The size of the (first) image, from the file's header alone. More than max_pixels are too large. If the outcome is
  // not ok, message[room] says why, as a string.
  int (*header)(const uint8_t* bytes, size_t size, int64_t max_pixels, TesseraImageHeader* out, char* message,
                size_t room);
  // The pixels of the image whose header this is, row by row from the top: height * width * 3 bytes, or height * width
  // for gray. Alpha is dropped; 16 bit samples keep their upper byte.
  int (*decode)(const uint8_t* bytes, size_t size, const TesseraImageHeader* header, int pixel_format, uint8_t* out,
                char* message, size_t room);
};

// Null if the library does not offer this version.
__attribute__((visibility("default"))) const TesseraImage* tessera_image(uint32_t version);

}  // extern "C"
