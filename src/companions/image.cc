#include "companions/image.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include "base/checked.h"
#include "companions/image_codec.h"

namespace tessera::image {

bool Problem::say(int why, const char* pattern, va_list arguments) {
  if (!ok()) return false;  // the first one is the cause
  outcome = why;
  std::vsnprintf(text, sizeof text, pattern, arguments);
  return false;
}

bool Problem::say(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(kTesseraImageUnreadable, pattern, arguments);
  va_end(arguments);
  return false;
}

bool Problem::no_memory() {
  outcome = kTesseraImageNoMemory;
  std::snprintf(text, sizeof text, "out of memory");
  return false;
}

void Canvas::cmyk_row(int64_t y, const uint8_t* cmyk) {
  for (int64_t x = 0; x < size_.width; ++x) {
    const uint32_t light = 255u - cmyk[4 * x + 3];
    uint8_t rgb[3];
    for (int c = 0; c < 3; ++c) {
      const uint32_t product = cmyk[4 * x + c] * light + 128;  // divided by 255, rounded
      const uint32_t ink = ((product >> 8) + product) >> 8;
      rgb[c] = static_cast<uint8_t>(light > ink ? light - ink : 0);
    }
    put(x, y, rgb[0], rgb[1], rgb[2]);
  }
}

namespace {

// What is told apart by longer marks comes first.
constexpr const Format* kFormats[] = {&kPng, &kJpeg, &kWebp, &kJpeg2000, &kTiff, &kBmp, &kPnm};

const Format* format_of(Bytes bytes) {
  for (const Format* f : kFormats)
    if (f->matches(bytes)) return f;
  return nullptr;
}

bool read_header(Bytes bytes, int64_t max_pixels, TesseraImageHeader* out, Problem& problem) {
  const Format* format = format_of(bytes);
  if (!format) return problem.say("these bytes are no BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP image");
  Size size;
  if (!format->header(bytes, &size, problem)) return problem.say("%s: damaged header", format->name);
  if (size.width <= 0 || size.height <= 0) return problem.say("%s: the image has no pixels", format->name);
  int64_t pixels;
  if (!checked_mul(size.width, size.height, &pixels) || pixels > max_pixels) {
    problem.outcome = kTesseraImageTooLarge;
    std::snprintf(problem.text, sizeof problem.text, "%s: %lld x %lld pixels, at most %lld are read", format->name,
                  static_cast<long long>(size.width), static_cast<long long>(size.height),
                  static_cast<long long>(max_pixels));
    return false;
  }
  *out = {size.width, size.height, format->name};
  return true;
}

int report(const Problem& problem, char* message, size_t room) {
  if (room) std::snprintf(message, room, "%s", problem.text);
  return problem.outcome;
}

int header(const uint8_t* bytes, size_t size, int64_t max_pixels, TesseraImageHeader* out, char* message, size_t room) {
  Problem problem;
  try {
    read_header({bytes, size}, max_pixels, out, problem);
  } catch (const std::bad_alloc&) {
    problem.no_memory();
  }
  return report(problem, message, room);
}

int decode(const uint8_t* bytes, size_t size, const TesseraImageHeader* header, int pixel_format, uint8_t* out,
           char* message, size_t room) {
  Problem problem;
  try {
    TesseraImageHeader found{};
    if (read_header({bytes, size}, header->width * header->height, &found, problem)) {
      if (found.width != header->width || found.height != header->height) {
        problem.say("the header belongs to another image");
      } else {
        Canvas canvas({found.width, found.height}, pixel_format, out);
        if (!format_of({bytes, size})->pixels({bytes, size}, canvas, problem))
          problem.say("%s: damaged image", found.format);
      }
    }
  } catch (const std::bad_alloc&) {
    problem.no_memory();
  }
  return report(problem, message, room);
}

constexpr TesseraImage kTable{header, decode};

}  // namespace
}  // namespace tessera::image

const TesseraImage* tessera_image(uint32_t version) {
  return version == kTesseraImageVersion ? &tessera::image::kTable : nullptr;
}
