// PNG, by libpng. Colours are taken as stored (no gamma), transparency is dropped, 16 bit samples keep the upper byte.
#include <png.h>

#include <csetjmp>

#include "base/checked.h"
#include "companions/image_codec.h"

namespace tessera::image {
namespace {

constexpr std::string_view kMagic("\x89PNG\r\n\x1a\n", 8);
// For what an ancillary chunk (a profile, a text) unpacks to.
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;

bool matches(Bytes b) { return starts_with(b, kMagic); }

// The header is the first chunk, always.
bool header(Bytes bytes, Size* size, Problem& problem) {
  Cursor c{bytes, 16};
  uint32_t width = 0, height = 0;
  if (!starts_with(bytes, "IHDR", 12) || !c.big(4, &width) || !c.big(4, &height))
    return problem.say("PNG: the header is missing");
  *size = {width, height};
  return true;
}

// Everything that lives while libpng works. No destructors: its errors jump.
struct Reader {
  png_struct* lib;
  png_info* info;
  Bytes bytes;
  size_t at;
  Problem* problem;
};

[[noreturn]] void on_error(png_struct* lib, const char* text) {
  static_cast<Problem*>(png_get_error_ptr(lib))->say("PNG: %s", text);
  png_longjmp(lib, 1);
}
void on_warning(png_struct*, const char*) {}

void read(png_struct* lib, uint8_t* out, size_t n) {
  auto& r = *static_cast<Reader*>(png_get_io_ptr(lib));
  if (n > r.bytes.size() - r.at) png_error(lib, "the file ends too early");
  std::memcpy(out, r.bytes.data() + r.at, n);
  r.at += n;
}

// One byte per sample: gray or RGB. Returns the number of samples per pixel, 0 if something is wrong.
int start(Reader& r, const Canvas& canvas) {
  if (setjmp(png_jmpbuf(r.lib))) return 0;
  png_set_read_fn(r.lib, &r, read);
  png_set_user_limits(r.lib, static_cast<uint32_t>(canvas.width()), static_cast<uint32_t>(canvas.height()));
  png_set_chunk_malloc_max(r.lib, kMaxChunkBytes);
  png_read_info(r.lib, r.info);
  const int color = png_get_color_type(r.lib, r.info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r.lib);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(r.lib);
  png_set_strip_16(r.lib);
  png_set_strip_alpha(r.lib);
  png_set_interlace_handling(r.lib);
  png_read_update_info(r.lib, r.info);
  const int channels = png_get_channels(r.lib, r.info);
  if (png_get_rowbytes(r.lib, r.info) != static_cast<size_t>(canvas.width()) * static_cast<size_t>(channels)) return 0;
  return channels == 1 || channels == 3 ? channels : 0;
}

bool read_image(Reader& r, uint8_t** rows) {
  if (setjmp(png_jmpbuf(r.lib))) return false;
  png_read_image(r.lib, rows);
  return true;
}

// Interlaced rows are complete only at the end, so the whole image is read first.
bool read_pixels(Reader& r, Canvas& canvas) {
  const int channels = start(r, canvas);
  if (!channels) return false;
  const auto stride = static_cast<size_t>(canvas.width()) * static_cast<size_t>(channels);
  const auto height = static_cast<size_t>(canvas.height());
  std::vector<uint8_t> image(stride * height);
  std::vector<uint8_t*> rows(height);
  for (size_t y = 0; y < height; ++y) rows[y] = image.data() + y * stride;
  if (!read_image(r, rows.data())) return false;
  for (size_t y = 0; y < height; ++y)
    if (channels == 1)
      canvas.gray_row(static_cast<int64_t>(y), rows[y]);
    else
      canvas.rgb_row(static_cast<int64_t>(y), rows[y]);
  return true;
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  Reader r{nullptr, nullptr, bytes, 0, &problem};
  r.lib = png_create_read_struct(PNG_LIBPNG_VER_STRING, &problem, on_error, on_warning);
  if (!r.lib) return problem.no_memory();
  struct Guard {
    Reader& r;
    ~Guard() { png_destroy_read_struct(&r.lib, &r.info, nullptr); }
  } guard{r};
  r.info = png_create_info_struct(r.lib);
  if (!r.info) return problem.no_memory();
  return read_pixels(r, canvas);
}

}  // namespace

extern constexpr Format kPng{"PNG", matches, header, pixels};

}  // namespace tessera::image
