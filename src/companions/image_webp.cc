// WebP, by libwebp. Of an animation, the first frame on its canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "companions/image_codec.h"

namespace tessera::image {
namespace {

bool matches(Bytes b) { return starts_with(b, "RIFF") && starts_with(b, "WEBP", 8); }

bool header(Bytes bytes, Size* size, Problem& problem) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK)
    return problem.say("WebP: damaged header");
  *size = {features.width, features.height};
  return true;
}

struct FrameDone {
  void operator()(WebPIterator* frame) const { WebPDemuxReleaseIterator(frame); }
};

// The frame at its place; what it leaves of the canvas is black.
bool put_frame(const WebPIterator& frame, Canvas& canvas, Problem& problem) {
  const int64_t left = frame.x_offset, top = frame.y_offset, width = frame.width, height = frame.height;
  if (width <= 0 || height <= 0 || left < 0 || top < 0 || left + width > canvas.width() ||
      top + height > canvas.height())
    return problem.say("WebP: the frame lies outside of the canvas");
  std::vector<uint8_t> rgb(static_cast<size_t>(width * height) * 3);
  if (!WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, rgb.data(), rgb.size(),
                         static_cast<int>(width * 3)))
    return problem.say("WebP: damaged image");
  std::vector<uint8_t> row(static_cast<size_t>(canvas.width()) * 3);
  for (int64_t y = 0; y < canvas.height(); ++y) {
    std::fill(row.begin(), row.end(), uint8_t{0});
    if (y >= top && y < top + height)
      std::memcpy(row.data() + left * 3, rgb.data() + (y - top) * width * 3, static_cast<size_t>(width) * 3);
    canvas.rgb_row(y, row.data());
  }
  return true;
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  const WebPData data{bytes.data(), bytes.size()};
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer) return problem.say("WebP: damaged file");
  WebPIterator frame;
  if (!WebPDemuxGetFrame(demuxer.get(), 1, &frame)) return problem.say("WebP: there is no image");
  const std::unique_ptr<WebPIterator, FrameDone> guard(&frame);
  return put_frame(frame, canvas, problem);
}

}  // namespace

extern constexpr Format kWebp{"WebP", matches, header, pixels};

}  // namespace tessera::image
