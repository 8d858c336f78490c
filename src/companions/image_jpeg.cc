// JPEG, by libjpeg-turbo with its defaults: accurate inverse transform, smooth chroma upsampling. The orientation that
// a camera notes (EXIF) is not applied.
#include <cstdio>  // jpeglib.h wants FILE

#include <jpeglib.h>

#include <csetjmp>

#include "companions/image_codec.h"

namespace tessera::image {
namespace {

// Files with more scans than this are made to waste time.
constexpr int kMaxScans = 500;

// Everything that lives while libjpeg works. No destructors: its errors jump.
struct Reader {
  jpeg_decompress_struct lib;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf failed;
  Problem* problem;
};

Reader& reader_of(j_common_ptr lib) { return *static_cast<Reader*>(lib->client_data); }

[[noreturn]] void on_error(j_common_ptr lib) {
  char text[JMSG_LENGTH_MAX];
  lib->err->format_message(lib, text);
  Reader& r = reader_of(lib);
  r.problem->say("JPEG: %s", text);
  std::longjmp(r.failed, 1);
}
void on_message(j_common_ptr, int) {}
void on_output(j_common_ptr) {}

void on_progress(j_common_ptr lib) {
  auto* decompress = reinterpret_cast<j_decompress_ptr>(lib);
  if (decompress->input_scan_number <= kMaxScans) return;
  Reader& r = reader_of(lib);
  r.problem->say("JPEG: more than %d scans", kMaxScans);
  std::longjmp(r.failed, 1);
}

void no_source(j_decompress_ptr) {}
boolean at_end(j_decompress_ptr lib) {
  Reader& r = reader_of(reinterpret_cast<j_common_ptr>(lib));
  r.problem->say("JPEG: the file ends too early");
  std::longjmp(r.failed, 1);
}
void skip(j_decompress_ptr lib, long n) {
  if (n <= 0) return;
  if (static_cast<size_t>(n) > lib->src->bytes_in_buffer) at_end(lib);
  lib->src->next_input_byte += n;
  lib->src->bytes_in_buffer -= static_cast<size_t>(n);
}

// Before setjmp: nothing here jumps but jpeg_create_decompress, which the caller guards.
void prepare(Reader& r, Bytes bytes) {
  r.errors.error_exit = on_error;
  r.errors.emit_message = on_message;
  r.errors.output_message = on_output;
  r.source.next_input_byte = bytes.data();
  r.source.bytes_in_buffer = bytes.size();
  r.source.init_source = no_source;
  r.source.fill_input_buffer = at_end;
  r.source.skip_input_data = skip;
  r.source.resync_to_restart = jpeg_resync_to_restart;
  r.source.term_source = no_source;
  r.progress.progress_monitor = on_progress;
}

bool open(Reader& r, Bytes bytes, Problem& problem) {
  std::memset(&r, 0, sizeof r);
  r.problem = &problem;
  r.lib.err = jpeg_std_error(&r.errors);
  r.lib.client_data = &r;
  prepare(r, bytes);
  if (setjmp(r.failed)) return false;
  jpeg_create_decompress(&r.lib);
  r.lib.src = &r.source;
  r.lib.progress = &r.progress;
  jpeg_read_header(&r.lib, TRUE);
  return true;
}

// One row of colours as libjpeg gives them.
void put_row(Canvas& canvas, J_COLOR_SPACE space, int64_t y, uint8_t* row) {
  if (space == JCS_GRAYSCALE) return canvas.gray_row(y, row);
  if (space == JCS_RGB) return canvas.rgb_row(y, row);
  for (int64_t i = 0; i < canvas.width() * 4; ++i) row[i] = static_cast<uint8_t>(255 - row[i]);  // Adobe's convention
  canvas.cmyk_row(y, row);
}

bool read_rows(Reader& r, Canvas& canvas, uint8_t* row) {
  if (setjmp(r.failed)) return false;
  switch (r.lib.jpeg_color_space) {
    case JCS_GRAYSCALE: r.lib.out_color_space = JCS_GRAYSCALE; break;
    case JCS_CMYK:
    case JCS_YCCK: r.lib.out_color_space = JCS_CMYK; break;
    case JCS_RGB:
    case JCS_YCbCr: r.lib.out_color_space = JCS_RGB; break;
    default: return r.problem->say("JPEG: %d components of unknown colour", r.lib.num_components);
  }
  jpeg_start_decompress(&r.lib);
  if (r.lib.output_width != canvas.width() || r.lib.output_height != canvas.height()) return false;
  while (r.lib.output_scanline < r.lib.output_height) {
    const int64_t y = r.lib.output_scanline;
    if (jpeg_read_scanlines(&r.lib, &row, 1) == 1) put_row(canvas, r.lib.out_color_space, y, row);
  }
  return true;
}

bool matches(Bytes b) { return starts_with(b, "\xff\xd8\xff"); }

bool header(Bytes bytes, Size* size, Problem& problem) {
  Reader r;
  const bool good = open(r, bytes, problem);
  if (good) *size = {r.lib.image_width, r.lib.image_height};
  jpeg_destroy_decompress(&r.lib);
  return good;
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  std::vector<uint8_t> row(static_cast<size_t>(canvas.width()) * 4);
  Reader r;
  const bool good = open(r, bytes, problem) && read_rows(r, canvas, row.data());
  jpeg_destroy_decompress(&r.lib);
  return good;
}

}  // namespace

extern constexpr Format kJpeg{"JPEG", matches, header, pixels};

}  // namespace tessera::image
