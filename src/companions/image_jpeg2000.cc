// JPEG 2000, as a JP2 file or a bare codestream, by OpenJPEG: gray, RGB, YCC and CMYK, alpha dropped.
#include <openjpeg.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "companions/image_codec.h"

namespace tessera::image {
namespace {

constexpr std::string_view kFile("\0\0\0\x0cjP  \r\n\x87\n", 12), kStream("\xff\x4f\xff\x51", 4);
// The library's memory grows with both, whatever the size of the image.
constexpr uint32_t kMaxComponents = 4;
constexpr int64_t kMaxTiles = 16384;

bool matches(Bytes b) { return starts_with(b, kFile) || starts_with(b, kStream); }

// The codestream inside of a file's boxes.
bool find_stream(Bytes bytes, Bytes* out) {
  if (starts_with(bytes, kStream)) return *out = bytes, true;
  Cursor c{bytes};
  for (;;) {
    const size_t start = c.at;
    uint32_t length, type, high = 0, low = 0;
    if (!c.big(4, &length) || !c.big(4, &type)) return false;
    if (length == 1 && (!c.big(4, &high) || !c.big(4, &low))) return false;
    const uint64_t size = length == 1 ? uint64_t{high} << 32 | low : length;
    if (type == 0x6a703263) return *out = bytes.subspan(c.at), true;  // "jp2c"
    if (size < c.at - start) return false;
    c.at = start;
    if (!c.skip(size)) return false;
  }
}

// The size marker, which every codestream begins with.
bool header(Bytes bytes, Size* size, Problem& problem) {
  Bytes stream;
  if (!find_stream(bytes, &stream) || !starts_with(stream, kStream))
    return problem.say("JPEG 2000: there is no codestream");
  Cursor c{stream, 8};
  uint32_t x1, y1, x0, y0, tile_width, tile_height, tile_x, tile_y, components;
  for (uint32_t* v : {&x1, &y1, &x0, &y0, &tile_width, &tile_height, &tile_x, &tile_y})
    if (!c.big(4, v)) return problem.say("JPEG 2000: the file ends too early");
  if (!c.big(2, &components)) return problem.say("JPEG 2000: the file ends too early");
  if (x1 <= x0 || y1 <= y0 || !tile_width || !tile_height || tile_x > x0 || tile_y > y0)
    return problem.say("JPEG 2000: the image lies outside of its tiles");
  if (components < 1 || components > kMaxComponents) return problem.say("JPEG 2000: %u components", components);
  const int64_t across = (int64_t{x1} - tile_x + tile_width - 1) / tile_width;
  const int64_t down = (int64_t{y1} - tile_y + tile_height - 1) / tile_height;
  if (across > kMaxTiles || down > kMaxTiles || across * down > kMaxTiles)
    return problem.say("JPEG 2000: more than %d tiles", static_cast<int>(kMaxTiles));
  *size = {int64_t{x1} - x0, int64_t{y1} - y0};
  return true;
}

void on_error(const char* text, void* data) {
  const auto n = static_cast<int>(std::strcspn(text, "\r\n"));
  static_cast<Problem*>(data)->say("JPEG 2000: %.*s", n, text);
}
void on_message(const char*, void*) {}

OPJ_SIZE_T read(void* out, OPJ_SIZE_T n, void* data) {
  auto& c = *static_cast<Cursor*>(data);
  n = std::min<OPJ_SIZE_T>(n, c.left());
  if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(out, c.bytes.data() + c.at, n);
  c.at += n;
  return n;
}
OPJ_OFF_T skip(OPJ_OFF_T n, void* data) {
  return n >= 0 && static_cast<Cursor*>(data)->skip(static_cast<uint64_t>(n)) ? n : -1;
}
OPJ_BOOL seek(OPJ_OFF_T to, void* data) {
  auto& c = *static_cast<Cursor*>(data);
  if (to < 0 || static_cast<uint64_t>(to) > c.bytes.size()) return OPJ_FALSE;
  c.at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

using Stream = std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)>;
using Codec = std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)>;
using Image = std::unique_ptr<opj_image_t, void (*)(opj_image_t*)>;

Stream stream_of(Cursor& cursor) {
  Stream s(opj_stream_create(1 << 16, OPJ_TRUE), opj_stream_destroy);
  if (!s) return s;
  opj_stream_set_user_data(s.get(), &cursor, nullptr);
  opj_stream_set_user_data_length(s.get(), cursor.bytes.size());
  opj_stream_set_read_function(s.get(), read);
  opj_stream_set_skip_function(s.get(), skip);
  opj_stream_set_seek_function(s.get(), seek);
  return s;
}

Image decode(Bytes bytes, const Canvas& canvas, Problem& problem) {
  Cursor cursor{bytes};
  Image image(nullptr, opj_image_destroy);
  const Stream stream = stream_of(cursor);
  const Codec codec(opj_create_decompress(starts_with(bytes, kStream) ? OPJ_CODEC_J2K : OPJ_CODEC_JP2),
                    opj_destroy_codec);
  if (!stream || !codec) {
    problem.no_memory();
    return image;
  }
  opj_set_error_handler(codec.get(), on_error, &problem);
  opj_set_warning_handler(codec.get(), on_message, nullptr);
  opj_set_info_handler(codec.get(), on_message, nullptr);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* raw = nullptr;
  const bool opened = opj_setup_decoder(codec.get(), &parameters) && opj_read_header(stream.get(), codec.get(), &raw);
  image.reset(raw);
  const bool agrees = opened && raw && int64_t{raw->x1} - raw->x0 == canvas.width() &&
                      int64_t{raw->y1} - raw->y0 == canvas.height() && raw->numcomps <= kMaxComponents;
  if (!agrees || !opj_decode(codec.get(), stream.get(), raw) || !opj_end_decompress(codec.get(), stream.get()))
    image.reset();
  return image;
}

// The sample of a component at a place of the image, as 0 to 255.
uint8_t sample(const opj_image_comp_t& c, int64_t x, int64_t y) {
  const int64_t column = std::min<int64_t>(x / c.dx, c.w - 1), row = std::min<int64_t>(y / c.dy, c.h - 1);
  int64_t v = c.data[row * c.w + column];
  if (c.sgnd) v += int64_t{1} << (c.prec - 1);
  if (c.prec > 8)
    v = (v + (int64_t{1} << (c.prec - 9))) >> (c.prec - 8);
  else
    v <<= 8 - c.prec;
  return static_cast<uint8_t>(std::clamp<int64_t>(v, 0, 255));
}

bool usable(const opj_image_t& image, const Canvas& canvas) {
  for (uint32_t i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& c = image.comps[i];
    if (!c.data || !c.w || !c.h || !c.dx || !c.dy || c.prec < 1 || c.prec > 31) return false;
    if (c.w > canvas.width() || c.h > canvas.height()) return false;
  }
  return image.numcomps > 0;
}

uint8_t to_byte(double v) { return static_cast<uint8_t>(std::clamp(v + 0.5, 0.0, 255.0)); }

void put_ycc(Canvas& canvas, int64_t x, int64_t y, double light, double blue, double red) {
  blue -= 128, red -= 128;
  canvas.put(x, y, to_byte(light + 1.402 * red), to_byte(light - 0.344136 * blue - 0.714136 * red),
             to_byte(light + 1.772 * blue));
}

void put_colors(Canvas& canvas, const opj_image_t& image) {
  const opj_image_comp_t* comps = image.comps;
  const bool cmyk = image.numcomps == 4 && image.color_space == OPJ_CLRSPC_CMYK;
  const bool ycc = image.color_space == OPJ_CLRSPC_SYCC || comps[1].dx > comps[0].dx;
  std::vector<uint8_t> inks(static_cast<size_t>(canvas.width()) * 4);
  for (int64_t y = 0; y < canvas.height(); ++y) {
    for (int64_t x = 0; x < canvas.width(); ++x) {
      const uint8_t a = sample(comps[0], x, y), b = sample(comps[1], x, y), c = sample(comps[2], x, y);
      if (cmyk) {
        const uint8_t ink[] = {a, b, c, sample(comps[3], x, y)};
        std::copy_n(ink, 4, inks.data() + 4 * x);
      } else if (ycc) {
        put_ycc(canvas, x, y, a, b, c);
      } else {
        canvas.put(x, y, a, b, c);
      }
    }
    if (cmyk) canvas.cmyk_row(y, inks.data());
  }
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  const Image image = decode(bytes, canvas, problem);
  if (!image) return false;
  if (!usable(*image, canvas)) return problem.say("JPEG 2000: a component is missing");
  if (image->numcomps >= 3) {
    put_colors(canvas, *image);
  } else {
    for (int64_t y = 0; y < canvas.height(); ++y)
      for (int64_t x = 0; x < canvas.width(); ++x) canvas.put_gray(x, y, sample(image->comps[0], x, y));
  }
  return true;
}

}  // namespace

extern constexpr Format kJpeg2000{"JPEG 2000", matches, header, pixels};

}  // namespace tessera::image
