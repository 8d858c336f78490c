// PNM: bitmaps, gray maps and pixel maps, as text (P1 P2 P3) or binary (P4 P5 P6), with samples of up to 16 bits.
#include "base/checked.h"
#include "companions/image_codec.h"

namespace tessera::image {
namespace {

bool is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }

bool matches(Bytes b) {
  return b.size() > 2 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6' && (is_space(b[2]) || b[2] == '#');
}

struct Info {
  Size size;
  int kind = 0;  // 1 to 6
  int64_t most = 1;
  size_t pixels_at = 0;

  bool text() const { return kind <= 3; }
  bool bitmap() const { return kind == 1 || kind == 4; }
  int samples() const { return kind == 3 || kind == 6 ? 3 : 1; }
};

// Words of the file: white space and comments stand between them.
struct Words {
  Bytes bytes;
  size_t at;

  bool skip_space() {
    for (; at < bytes.size(); ++at) {
      if (bytes[at] == '#')
        while (at + 1 < bytes.size() && bytes[at] != '\n' && bytes[at] != '\r') ++at;
      else if (!is_space(bytes[at]))
        return true;
    }
    return false;
  }
  // A number of at most `limit`.
  bool number(int64_t limit, int64_t* out) {
    if (!skip_space()) return false;
    const size_t first = at;
    for (*out = 0; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at) {
      *out = *out * 10 + (bytes[at] - '0');
      if (*out > limit) return false;
    }
    return at > first && (at == bytes.size() || is_space(bytes[at]) || bytes[at] == '#');
  }
  // Bits need no space between them.
  bool bit(int64_t* out) {
    if (!skip_space() || (bytes[at] != '0' && bytes[at] != '1')) return false;
    *out = bytes[at++] - '0';
    return true;
  }
};

bool read_info(Bytes bytes, Info& info, Problem& problem) {
  info.kind = bytes[1] - '0';
  Words words{bytes, 2};
  if (!words.number(INT32_MAX, &info.size.width) || !words.number(INT32_MAX, &info.size.height))
    return problem.say("PNM: the header has no size");
  if (!info.bitmap() && (!words.number(65535, &info.most) || info.most == 0))
    return problem.say("PNM: the header wants a largest sample from 1 to 65535");
  info.pixels_at = words.at + !info.text();  // one white space ends a binary file's header
  return true;
}

bool header(Bytes bytes, Size* size, Problem& problem) {
  Info info;
  if (!read_info(bytes, info, problem)) return false;
  *size = info.size;
  return true;
}

// 0 to 255, halves rounded to even.
uint8_t scaled(int64_t value, int64_t most) {
  if (value >= most) return 255;
  const int64_t product = value * 255, whole = product / most, twice = product % most * 2;
  return static_cast<uint8_t>(whole + (twice > most || (twice == most && whole % 2)));
}

// One row of samples; bits are ink, samples are light.
bool read_text_row(Words& words, const Info& info, std::vector<uint8_t>& row) {
  for (uint8_t& sample : row) {
    int64_t v;
    if (!(info.bitmap() ? words.bit(&v) : words.number(info.most, &v))) return false;
    sample = info.bitmap() ? (v ? 0 : 255) : scaled(v, info.most);
  }
  return true;
}

void read_binary_row(const uint8_t* data, const Info& info, std::vector<uint8_t>& row) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (info.bitmap())
      row[i] = data[i / 8] >> (7 - i % 8) & 1 ? 0 : 255;
    else
      row[i] = scaled(info.most < 256 ? data[i] : data[2 * i] << 8 | data[2 * i + 1], info.most);
  }
}

bool pixels(Bytes bytes, Canvas& canvas, Problem& problem) {
  Info info;
  if (!read_info(bytes, info, problem)) return false;
  const int64_t samples = canvas.width() * info.samples();  // the pixels are counted: at most three times as many
  const int64_t stride = info.bitmap() ? ceil_div(samples, 8) : samples * (info.most < 256 ? 1 : 2);
  int64_t all;
  if (!info.text() && (!checked_mul(stride, canvas.height(), &all) ||
                       !range_inside(info.pixels_at, static_cast<uint64_t>(all), bytes.size())))
    return problem.say("PNM: the file ends too early");
  Words words{bytes, info.pixels_at};
  std::vector<uint8_t> row(static_cast<size_t>(samples));
  for (int64_t y = 0; y < canvas.height(); ++y) {
    if (!info.text())
      read_binary_row(bytes.data() + info.pixels_at + y * stride, info, row);
    else if (!read_text_row(words, info, row))
      return problem.say("PNM: the file ends too early, or has something else than samples");
    if (info.samples() == 3)
      canvas.rgb_row(y, row.data());
    else
      canvas.gray_row(y, row.data());
  }
  return true;
}

}  // namespace

extern constexpr Format kPnm{"PNM", matches, header, pixels};

}  // namespace tessera::image
