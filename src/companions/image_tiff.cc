// TIFF, by libtiff: the first page, turned as its orientation says. Gray, RGB, palette and CMYK of 1 to 16 bits are
// read sample by sample; other colours through the library's own conversion.
#include <tiffio.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/checked.h"
#include "companions/image_codec.h"

namespace tessera::image {
namespace {

bool matches(Bytes b) {
  for (const std::string_view magic : {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                                       std::string_view("II+\0", 4), std::string_view("MM\0+", 4)})
    if (starts_with(b, magic)) return true;
  return false;
}

// Memory the library may ask for at once, beside what the pixels need.
constexpr int64_t kMaxAllocation = 64 << 20;

tmsize_t read(thandle_t h, void* out, tmsize_t n) {
  auto& c = *static_cast<Cursor*>(h);
  n = std::min<tmsize_t>(n, static_cast<tmsize_t>(c.left()));
  if (n <= 0) return 0;
  std::memcpy(out, c.bytes.data() + c.at, static_cast<size_t>(n));
  c.at += static_cast<size_t>(n);
  return n;
}
tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t h, toff_t to, int whence) {
  auto& c = *static_cast<Cursor*>(h);
  const uint64_t base = whence == SEEK_CUR ? c.at : whence == SEEK_END ? c.bytes.size() : 0;
  c.at = static_cast<size_t>(std::min<uint64_t>(base + to, c.bytes.size()));
  return c.at;
}
int close(thandle_t) { return 0; }
toff_t size_of(thandle_t h) { return static_cast<Cursor*>(h)->bytes.size(); }

int on_error(TIFF*, void* data, const char*, const char* pattern, va_list arguments) {
  char text[160];
  std::vsnprintf(text, sizeof text, pattern, arguments);
  static_cast<Problem*>(data)->say("TIFF: %s", text);
  return 1;
}
int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

using File = std::unique_ptr<TIFF, void (*)(TIFF*)>;

File open(Cursor& cursor, int64_t max_bytes, Problem& problem) {
  File file(nullptr, TIFFClose);
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (!options) {
    problem.no_memory();
    return file;
  }
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), max_bytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &problem);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, nullptr);
  file.reset(
      TIFFClientOpenExt("image", "rm", &cursor, read, write, seek, close, size_of, nullptr, nullptr, options.get()));
  return file;
}

// What the tags say of the samples.
struct Layout {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1, photometric = PHOTOMETRIC_MINISBLACK, planar = PLANARCONFIG_CONTIG;
  uint16_t format = SAMPLEFORMAT_UINT, compression = COMPRESSION_NONE, orientation = ORIENTATION_TOPLEFT;

  bool turned() const { return orientation >= ORIENTATION_LEFTTOP && orientation <= ORIENTATION_LEFTBOT; }
  int colors() const { return photometric == PHOTOMETRIC_RGB ? 3 : photometric == PHOTOMETRIC_SEPARATED ? 4 : 1; }
  bool direct() const {
    const bool depth = bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16;
    const bool known = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE ||
                       photometric == PHOTOMETRIC_RGB || photometric == PHOTOMETRIC_SEPARATED ||
                       (photometric == PHOTOMETRIC_PALETTE && bits <= 8);
    return depth && known && samples >= colors() && samples <= 8 &&
           (format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID);
  }
};

bool read_layout(TIFF* t, Layout& l) {
  if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &l.width) || !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &l.height)) return false;
  TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &l.bits);
  TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &l.samples);
  TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &l.planar);
  TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &l.format);
  TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &l.compression);
  TIFFGetFieldDefaulted(t, TIFFTAG_ORIENTATION, &l.orientation);
  TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &l.photometric);
  return true;
}

bool header(Bytes bytes, Size* size, Problem& problem) {
  Cursor cursor{bytes};
  const File file = open(cursor, kMaxAllocation, problem);
  Layout l;
  if (!file || !read_layout(file.get(), l)) return problem.say("TIFF: damaged header");
  *size = {l.width, l.height};
  if (l.turned()) std::swap(size->width, size->height);
  problem = {};  // what the library complained of and went on from
  return true;
}

// Where the pixel (x, y) of the file belongs.
std::pair<int64_t, int64_t> place(const Layout& l, int64_t x, int64_t y) {
  const int64_t right = l.width - 1 - x, up = l.height - 1 - y;
  switch (l.orientation) {
    case ORIENTATION_TOPRIGHT: return {right, y};
    case ORIENTATION_BOTRIGHT: return {right, up};
    case ORIENTATION_BOTLEFT: return {x, up};
    case ORIENTATION_LEFTTOP: return {y, x};
    case ORIENTATION_RIGHTTOP: return {up, x};
    case ORIENTATION_RIGHTBOT: return {up, right};
    case ORIENTATION_LEFTBOT: return {y, right};
    default: return {x, y};
  }
}

// The samples of an image as bytes, colors() of them per pixel: scaled to 0..255, or indexes of a palette.
class Samples {
 public:
  Samples(TIFF* file, const Layout& layout)
      : file_(file),
        l_(layout),
        separate_(layout.planar == PLANARCONFIG_SEPARATE),
        all_(size_t{layout.width} * layout.height * static_cast<size_t>(layout.colors())) {}

  bool read(Problem& problem) {
    const bool tiled = TIFFIsTiled(file_);
    uint32_t width = l_.width, rows = l_.height;
    if (tiled) {
      if (!TIFFGetField(file_, TIFFTAG_TILEWIDTH, &width) || !TIFFGetField(file_, TIFFTAG_TILELENGTH, &rows))
        return false;
    } else {
      TIFFGetFieldDefaulted(file_, TIFFTAG_ROWSPERSTRIP, &rows);
      rows = std::min(rows, l_.height);
    }
    const int64_t bytes = tiled ? TIFFTileSize(file_) : TIFFStripSize(file_);
    const auto pixels = static_cast<int64_t>(l_.width) * l_.height;
    if (width == 0 || rows == 0 || bytes <= 0 || bytes > kMaxAllocation + 16 * pixels)
      return problem.say("TIFF: a block of %u x %u pixels", width, rows);
    block_.resize(static_cast<size_t>(bytes));
    for (int plane = 0; plane < (separate_ ? l_.colors() : 1); ++plane)
      for (int64_t y = 0; y < l_.height; y += rows)
        for (int64_t x = 0; x < l_.width; x += width)
          if (!read_block(tiled, static_cast<uint32_t>(x), static_cast<uint32_t>(y), plane, width, rows))
            return problem.say("TIFF: a block cannot be read");
    return true;
  }

  const uint8_t* pixel(int64_t x, int64_t y) const { return all_.data() + (y * l_.width + x) * l_.colors(); }

 private:
  bool read_block(bool tiled, uint32_t x, uint32_t y, int plane, uint32_t width, uint32_t rows) {
    const auto sample = static_cast<uint16_t>(plane);
    const auto room = static_cast<tmsize_t>(block_.size());
    const int64_t got = tiled ? TIFFReadEncodedTile(file_, TIFFComputeTile(file_, x, y, 0, sample), block_.data(), room)
                              : TIFFReadEncodedStrip(file_, TIFFComputeStrip(file_, y, sample), block_.data(), room);
    const int64_t per = separate_ ? 1 : l_.samples, stride = ceil_div(int64_t{width} * per * l_.bits, 8);
    rows = std::min(rows, l_.height - y);
    if (got < stride * rows) return false;
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t i = 0; i < std::min<int64_t>(width, l_.width - x); ++i) {
        uint8_t* out = all_.data() + ((y + j) * l_.width + x + i) * l_.colors();
        if (separate_)
          out[plane] = sample_at(block_.data() + j * stride, i);
        else
          for (int c = 0; c < l_.colors(); ++c) out[c] = sample_at(block_.data() + j * stride, i * per + c);
      }
    return true;
  }

  uint8_t sample_at(const uint8_t* row, int64_t i) const {
    if (l_.bits == 16) {
      uint16_t v;
      std::memcpy(&v, row + 2 * i, 2);
      return static_cast<uint8_t>(v >> 8);
    }
    const int64_t bit = i * l_.bits;
    const int most = (1 << l_.bits) - 1, v = row[bit / 8] >> (8 - l_.bits - bit % 8) & most;
    return static_cast<uint8_t>(l_.photometric == PHOTOMETRIC_PALETTE ? v : v * 255 / most);
  }

  TIFF* file_;
  const Layout& l_;
  bool separate_;
  std::vector<uint8_t> all_, block_;
};

// The sixteen bit colours of a palette, 1 << bits of each.
struct Palette {
  uint16_t* colors[3] = {};
};

void put_pixel(Canvas& canvas, const Layout& l, const Palette& palette, int64_t x, int64_t y, const uint8_t* s) {
  const auto [to_x, to_y] = place(l, x, y);
  switch (l.photometric) {
    case PHOTOMETRIC_RGB: return canvas.put(to_x, to_y, s[0], s[1], s[2]);
    case PHOTOMETRIC_MINISWHITE: return canvas.put_gray(to_x, to_y, static_cast<uint8_t>(255 - s[0]));
    case PHOTOMETRIC_PALETTE: {
      uint8_t rgb[3];
      for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(palette.colors[c][s[0]] >> 8);
      return canvas.put(to_x, to_y, rgb[0], rgb[1], rgb[2]);
    }
    case PHOTOMETRIC_SEPARATED: {
      uint8_t rgb[3];
      Canvas one({1, 1}, kTesseraRgb, rgb);
      one.cmyk_row(0, s);
      return canvas.put(to_x, to_y, rgb[0], rgb[1], rgb[2]);
    }
    default: return canvas.put_gray(to_x, to_y, s[0]);
  }
}

bool direct_pixels(TIFF* file, const Layout& l, Canvas& canvas, Problem& problem) {
  Palette p;
  if (l.photometric == PHOTOMETRIC_PALETTE &&
      !TIFFGetField(file, TIFFTAG_COLORMAP, &p.colors[0], &p.colors[1], &p.colors[2]))
    return problem.say("TIFF: there is no palette");
  Samples samples(file, l);
  if (!samples.read(problem)) return false;
  for (int64_t y = 0; y < l.height; ++y)
    for (int64_t x = 0; x < l.width; ++x) put_pixel(canvas, l, p, x, y, samples.pixel(x, y));
  return true;
}

bool converted_pixels(TIFF* file, const Layout& l, Canvas& canvas, Problem& problem) {
  std::vector<uint32_t> raster(size_t{l.width} * l.height);
  char text[1024] = "";
  if (!TIFFRGBAImageOK(file, text)) return problem.say("TIFF: %.150s", text);
  // Asked for as it is stored: turning is ours.
  if (!TIFFReadRGBAImageOriented(file, l.width, l.height, raster.data(), l.orientation, 1)) return false;
  for (int64_t y = 0; y < l.height; ++y)
    for (int64_t x = 0; x < l.width; ++x) {
      const uint32_t v = raster[static_cast<size_t>(y * l.width + x)];
      const auto [to_x, to_y] = place(l, x, y);
      canvas.put(to_x, to_y, static_cast<uint8_t>(TIFFGetR(v)), static_cast<uint8_t>(TIFFGetG(v)),
                 static_cast<uint8_t>(TIFFGetB(v)));
    }
  return true;
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  Cursor cursor{bytes};
  const int64_t max_bytes = kMaxAllocation + canvas.width() * canvas.height() * 16;
  const File file = open(cursor, max_bytes, problem);
  Layout l;
  if (!file || !read_layout(file.get(), l)) return false;
  if (l.photometric == PHOTOMETRIC_YCBCR && l.compression == COMPRESSION_JPEG && l.bits == 8 && l.samples == 3 &&
      l.planar == PLANARCONFIG_CONTIG) {
    TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    l.photometric = PHOTOMETRIC_RGB;
  }
  const bool good =
      l.direct() ? direct_pixels(file.get(), l, canvas, problem) : converted_pixels(file.get(), l, canvas, problem);
  if (good) problem = {};
  return good;
}

}  // namespace

extern constexpr Format kTiff{"TIFF", matches, header, pixels};

}  // namespace tessera::image
