// BMP: all header sizes of Windows and OS/2, 1 to 32 bits per pixel, palettes, bit fields, RLE.
#include <array>
#include <bit>

#include "base/checked.h"
#include "companions/image_codec.h"

namespace tessera::image {
namespace {

enum Compression : uint32_t { kPlain = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

struct Info {
  Size size;
  bool top_down = false;
  uint32_t bits = 0, compression = kPlain;
  uint32_t pixels_at = 0;
  std::array<uint32_t, 3> masks{};                    // of red, green and blue
  std::array<std::array<uint8_t, 3>, 256> palette{};  // RGB; black where the file has none
};

bool matches(Bytes b) { return starts_with(b, "BM"); }

bool read_palette(Cursor& c, uint32_t colors, uint32_t entry, Info& info, Problem& problem) {
  const uint32_t room = 1u << info.bits;
  if (colors == 0 || colors > room) colors = room;
  for (uint32_t i = 0; i < colors; ++i) {
    uint32_t b, g, r;
    if (c.at + entry > info.pixels_at) return true;  // a short palette: the pixels begin
    if (!c.little(1, &b) || !c.little(1, &g) || !c.little(1, &r) || !c.skip(entry - 3))
      return problem.say("BMP: the palette ends too early");
    info.palette[i] = {static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b)};
  }
  return true;
}

bool read_masks(Cursor& c, uint32_t header_size, Info& info, Problem& problem) {
  info.masks =
      info.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f} : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
  if (info.compression != kBitFields && info.compression != kAlphaBitFields) return true;
  if (info.bits != 16 && info.bits != 32) return problem.say("BMP: bit fields of %u bits", info.bits);
  // In headers of 40 bytes they follow it, in longer ones they are its end.
  c.at = 14 + 40;
  for (uint32_t& mask : info.masks)
    if (!c.little(4, &mask)) return problem.say("BMP: the bit fields are missing");
  if (header_size == 40 && info.compression == kAlphaBitFields) return c.skip(4);
  return true;
}

bool supported(const Info& info) {
  switch (info.compression) {
    case kPlain:
      return info.bits == 1 || info.bits == 2 || info.bits == 4 || info.bits == 8 || info.bits == 16 ||
             info.bits == 24 || info.bits == 32;
    case kRle8: return info.bits == 8 && !info.top_down;
    case kRle4: return info.bits == 4 && !info.top_down;
    case kBitFields:
    case kAlphaBitFields: return info.bits == 16 || info.bits == 32;
    default: return false;
  }
}

bool read_info(Bytes bytes, Info& info, Problem& problem) {
  Cursor c{bytes, 10};
  uint32_t header_size, width, height, planes, colors = 0;
  if (!c.little(4, &info.pixels_at) || !c.little(4, &header_size)) return false;
  const bool core = header_size == 12;
  if (!core && (header_size < 40 || header_size > 1024)) return problem.say("BMP: a header of %u bytes", header_size);
  const int wide = core ? 2 : 4;
  if (!c.little(wide, &width) || !c.little(wide, &height) || !c.little(2, &planes) || !c.little(2, &info.bits))
    return false;
  if (!core && (!c.little(4, &info.compression) || !c.skip(12) || !c.little(4, &colors) || !c.skip(4))) return false;
  info.top_down = !core && height >> 31;
  info.size = {width, info.top_down ? int64_t{1} << 32 : 0};
  info.size.height = info.top_down ? info.size.height - height : height;
  if (width >> 31) return problem.say("BMP: a negative width");
  if (!supported(info)) return problem.say("BMP: %u bits in compression %u", info.bits, info.compression);
  c.at = 14;
  if (!c.skip(header_size)) return problem.say("BMP: the header ends too early");
  if (info.bits <= 8) return read_palette(c, colors, core ? 3 : 4, info, problem);
  return read_masks(c, header_size, info, problem);
}

bool header(Bytes bytes, Size* size, Problem& problem) {
  Info info;
  if (!read_info(bytes, info, problem)) return false;
  *size = info.size;
  return true;
}

// The bits of a field, as 0 to 255.
uint8_t field(uint32_t pixel, uint32_t mask) {
  if (!mask) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift, value = (pixel & mask) >> shift;
  return static_cast<uint8_t>(value * 255 / most);
}

void put(const Info& info, Canvas& canvas, int64_t x, int64_t y, uint32_t pixel) {
  if (info.bits <= 8) {
    const auto& c = info.palette[pixel];
    return canvas.put(x, y, c[0], c[1], c[2]);
  }
  canvas.put(x, y, field(pixel, info.masks[0]), field(pixel, info.masks[1]), field(pixel, info.masks[2]));
}

bool plain_pixels(Bytes bytes, const Info& info, Canvas& canvas, Problem& problem) {
  int64_t row_bits, all;
  if (!checked_mul(canvas.width(), info.bits, &row_bits)) return false;
  const int64_t stride = ceil_div(row_bits, 32) * 4, used = ceil_div(row_bits, 8);
  // The last row may lack its padding.
  if (!checked_mul(stride, canvas.height() - 1, &all) || !checked_add(all, used, &all) ||
      !range_inside(info.pixels_at, static_cast<uint64_t>(all), bytes.size()))
    return problem.say("BMP: the file ends too early");
  for (int64_t k = 0; k < canvas.height(); ++k) {
    const uint8_t* row = bytes.data() + info.pixels_at + k * stride;
    const int64_t y = info.top_down ? k : canvas.height() - 1 - k;
    for (int64_t x = 0; x < canvas.width(); ++x) {
      uint32_t pixel = 0;
      if (info.bits < 8) {
        const int64_t bit = x * info.bits;
        pixel = row[bit / 8] >> (8 - info.bits - bit % 8) & ((1u << info.bits) - 1);
      } else {
        for (uint32_t i = info.bits / 8; i-- > 0;) pixel = pixel << 8 | row[x * (info.bits / 8) + i];
      }
      put(info, canvas, x, y, pixel);
    }
  }
  return true;
}

// Runs and literal stretches; what they leave out has colour 0. Rows are stored from the bottom.
bool rle_pixels(Bytes bytes, const Info& info, Canvas& canvas, Problem& problem) {
  const bool nibbles = info.compression == kRle4;
  const auto& first = info.palette[0];
  for (int64_t y = 0; y < canvas.height(); ++y)
    for (int64_t x = 0; x < canvas.width(); ++x) canvas.put(x, y, first[0], first[1], first[2]);
  Cursor c{bytes};
  if (!c.skip(info.pixels_at)) return problem.say("BMP: there are no pixels");
  int64_t x = 0, y = canvas.height() - 1;
  while (y >= 0) {
    uint32_t count, value;
    if (!c.little(1, &count) || !c.little(1, &value)) return problem.say("BMP: the file ends too early");
    if (count > 0) {
      for (uint32_t i = 0; i < count; ++i)
        put(info, canvas, x++, y, nibbles ? (i % 2 ? value & 15 : value >> 4) : value);
    } else if (value == 0) {
      x = 0, --y;
    } else if (value == 1) {
      return true;
    } else if (value == 2) {
      uint32_t right, up;
      if (!c.little(1, &right) || !c.little(1, &up)) return problem.say("BMP: the file ends too early");
      x += right, y -= up;
    } else {
      const size_t size = nibbles ? (value + 1) / 2 : value;
      if (size + size % 2 > c.left()) return problem.say("BMP: the file ends too early");
      const uint8_t* data = bytes.data() + c.at;
      for (uint32_t i = 0; i < value; ++i)
        put(info, canvas, x++, y, nibbles ? (i % 2 ? data[i / 2] & 15u : data[i / 2] >> 4) : data[i]);
      c.skip(size + size % 2);
    }
  }
  return true;
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  Info info;
  if (!read_info(bytes, info, problem)) return false;
  const bool rle = info.compression == kRle8 || info.compression == kRle4;
  return rle ? rle_pixels(bytes, info, canvas, problem) : plain_pixels(bytes, info, canvas, problem);
}

}  // namespace

extern constexpr Format kBmp{"BMP", matches, header, pixels};

}  // namespace tessera::image
