// ImageDecoder — the pixels of an encoded image. What cannot be decoded gives an image of 0 by 0 pixels, as the
// standard says; what is too large is refused.
#include "base/companion.h"
#include "companions/image.h"
#include "ops/op.h"

namespace tessera {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;

constinit Companion image_companion("libtessera_image.so", "tessera_image", kTesseraImageVersion,
                                    "libjpeg62-turbo-dev libpng-dev libwebp-dev libtiff-dev libopenjp2-7-dev");

struct Params {
  int pixel_format = kTesseraRgb;

  int64_t channels() const { return pixel_format == kTesseraGray ? 1 : 3; }
};
Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kFormats[] = {"RGB", "BGR", "Grayscale"};
  a.get_choice("pixel_format", p.pixel_format, kFormats);
  return {};
}

Status prepare(const void*, std::shared_ptr<const void>* out) {
  TRY_ASSIGN(table, image_companion.table());
  *out = std::shared_ptr<const void>(std::shared_ptr<void>(), table);  // lives as long as the process
  return {};
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  if (c.rank(0) != 1) return c.refuse(0, "a list of bytes");
  return c.set(0, DimVec<Dim>{c.fresh(), c.fresh(), Dim(static_cast<const Params*>(params)->channels())});
}

Status no_pixels(const Params& p, Call& call) { return call.allocate(0, DType::u8, Shape{0, 0, p.channels()}); }

Status compute(const Params& p, Call& call) {
  if (call.shape(0).rank() != 1) return call.refuse(0, "a list of bytes");
  const auto& library = call.prepared<TesseraImage>();
  const auto* bytes = call.in<uint8_t>(0);
  const auto size = static_cast<size_t>(call.count(0));
  TesseraImageHeader header{};
  char message[256] = "";
  const int found = library.header(bytes, size, kMaxPixels, &header, message, sizeof message);
  if (found == kTesseraImageUnreadable) return no_pixels(p, call);
  if (found != kTesseraImageOk) return call.refuse(0, "an image that fits ({})", std::string_view(message));
  const int64_t dims[] = {header.height, header.width, p.channels()};
  if (!call.wants(0)) return {};
  TRY_ASSIGN(shape, Shape::checked(dims));
  TRY_ASSIGN(y, call.allocate<uint8_t>(0, std::move(shape)));
  const int read = library.decode(bytes, size, &header, p.pixel_format, y, message, sizeof message);
  if (read == kTesseraImageUnreadable) return no_pixels(p, call);
  if (read != kTesseraImageOk) return error(Code::fail, "the image cannot be read: {}", std::string_view(message));
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::u8)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kImageDecoder{.domain = "",
                                  .name = "ImageDecoder",
                                  .versions = kVersions,
                                  .parse = parse_params<Params, parse>,
                                  .kernels = kKernels,
                                  .prepare = prepare};
extern constexpr OpInference kImageDecoderInference{.shape = infer_shape};

}  // namespace tessera
