// What the readers of image formats share.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "companions/image.h"

namespace tessera::image {

using Bytes = std::span<const uint8_t>;

// The first thing that went wrong. Plain data: libraries jump over the frames that hold it.
struct Problem {
  int outcome = kTesseraImageOk;
  char text[200] = "";

  bool ok() const { return outcome == kTesseraImageOk; }
  // Always false, for `return problem.say(...)`.
  [[gnu::format(printf, 2, 3)]] bool say(const char* pattern, ...);
  [[gnu::format(printf, 3, 0)]] bool say(int why, const char* pattern, va_list arguments);
  bool no_memory();
};

struct Size {
  int64_t width = 0, height = 0;
};

// Where rows go: the caller's buffer, in the format it asked for. A row outside of the image is ignored.
class Canvas {
 public:
  Canvas(Size size, int format, uint8_t* out) : size_(size), format_(format), out_(out) {}

  int64_t width() const { return size_.width; }
  int64_t height() const { return size_.height; }
  Size size() const { return size_; }

  void rgb_row(int64_t y, const uint8_t* rgb) {
    for (int64_t x = 0; x < size_.width; ++x) put(x, y, rgb[3 * x], rgb[3 * x + 1], rgb[3 * x + 2]);
  }
  void gray_row(int64_t y, const uint8_t* gray) {
    for (int64_t x = 0; x < size_.width; ++x) put_gray(x, y, gray[x]);
  }
  // Ink, where 255 is all of it.
  void cmyk_row(int64_t y, const uint8_t* cmyk);

  void put(int64_t x, int64_t y, uint8_t r, uint8_t g, uint8_t b) {
    if (!inside(x, y)) return;
    uint8_t* at = out_ + (y * size_.width + x) * (format_ == kTesseraGray ? 1 : 3);
    if (format_ == kTesseraGray) {
      *at = luma(r, g, b);
    } else {
      at[0] = format_ == kTesseraRgb ? r : b;
      at[1] = g;
      at[2] = format_ == kTesseraRgb ? b : r;
    }
  }
  void put_gray(int64_t x, int64_t y, uint8_t v) {
    if (!inside(x, y)) return;
    if (format_ == kTesseraGray)
      out_[y * size_.width + x] = v;
    else
      std::memset(out_ + (y * size_.width + x) * 3, v, 3);
  }

 private:
  bool inside(int64_t x, int64_t y) const { return x >= 0 && y >= 0 && x < size_.width && y < size_.height; }
  // ITU-R 601-2, in 16 bit fixed point.
  static uint8_t luma(uint32_t r, uint32_t g, uint32_t b) {
    return static_cast<uint8_t>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
  }

  Size size_;
  int format_;
  uint8_t* out_;
};

// Integers of files; false at their end.
struct Cursor {
  Bytes bytes;
  size_t at = 0;

  size_t left() const { return at < bytes.size() ? bytes.size() - at : 0; }
  bool skip(uint64_t n) { return n <= left() && (at += static_cast<size_t>(n), true); }
  bool little(int n, uint32_t* out) { return number(n, out, false); }
  bool big(int n, uint32_t* out) { return number(n, out, true); }

 private:
  bool number(int n, uint32_t* out, bool big) {
    if (left() < static_cast<size_t>(n)) return false;
    *out = 0;
    for (int i = 0; i < n; ++i) *out = *out << 8 | bytes[at + static_cast<size_t>(big ? i : n - 1 - i)];
    at += static_cast<size_t>(n);
    return true;
  }
};

inline bool starts_with(Bytes bytes, std::string_view magic, size_t at = 0) {
  return bytes.size() >= at + magic.size() && std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

// A format: whether bytes look like it, the size its header tells, and its pixels. `header` allocates nothing that
// grows with the size; `pixels` may rely on the size that the caller accepted, which is that of the canvas.
struct Format {
  const char* name;
  bool (*matches)(Bytes);
  bool (*header)(Bytes, Size*, Problem&);
  bool (*pixels)(Bytes, Canvas&, Problem&);
};

extern const Format kBmp, kJpeg, kJpeg2000, kPng, kPnm, kTiff, kWebp;

}  // namespace tessera::image
