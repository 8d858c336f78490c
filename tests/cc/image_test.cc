// labels: robust
// The image companion: one picture in every format, and what becomes of damaged files.
#include "companions/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/companion.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

const TesseraImage& library() { return *tessera_image(kTesseraImageVersion); }

// fuzz/seeds/image, see tools/make_image_seeds.py.
std::vector<fs::path> seeds() {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/fuzz/seeds/image"))
    out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}

Bytes read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr int64_t kWidth = 8, kHeight = 6;

struct Decoded {
  int outcome = kTesseraImageOk;
  TesseraImageHeader header{};
  std::string message;
  Bytes pixels;
};

// Small limits, so that a damaged size does not cost the test memory and time.
Decoded decode(const Bytes& bytes, int format, int64_t max_pixels = 1 << 16) {
  Decoded d;
  char message[256] = "";
  d.outcome = library().header(bytes.data(), bytes.size(), max_pixels, &d.header, message, sizeof message);
  if (d.outcome == kTesseraImageOk) {
    d.pixels.resize(static_cast<size_t>(d.header.width * d.header.height) * (format == kTesseraGray ? 1 : 3));
    d.outcome =
        library().decode(bytes.data(), bytes.size(), &d.header, format, d.pixels.data(), message, sizeof message);
  }
  d.message = message;
  return d;
}

TEST(Image, EveryFormatHoldsTheSamePicture) {
  ASSERT_GE(seeds().size(), 15u);
  for (const fs::path& path : seeds()) {
    SCOPED_TRACE(path.filename().string());
    const Bytes bytes = read_all(path);
    const Decoded rgb = decode(bytes, kTesseraRgb), bgr = decode(bytes, kTesseraBgr),
                  gray = decode(bytes, kTesseraGray);
    ASSERT_EQ(rgb.outcome, kTesseraImageOk) << rgb.message;
    ASSERT_EQ(bgr.outcome, kTesseraImageOk) << bgr.message;
    ASSERT_EQ(gray.outcome, kTesseraImageOk) << gray.message;
    ASSERT_EQ(rgb.header.width, kWidth);
    ASSERT_EQ(rgb.header.height, kHeight);
    const int tolerance = path.filename().string().starts_with("lossy") ? 24 : 0;
    for (int64_t i = 0; i < kWidth * kHeight; ++i) {
      const int64_t x = i % kWidth, y = i / kWidth, want[] = {30 * x, 40 * y, 15 * (x + y)};
      const uint8_t *p = rgb.pixels.data() + 3 * i, *q = bgr.pixels.data() + 3 * i;
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(static_cast<double>(p[c]), static_cast<double>(want[c]), tolerance) << x << "," << y;
        EXPECT_EQ(p[c], q[2 - c]);
      }
      EXPECT_NEAR(gray.pixels[static_cast<size_t>(i)], 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 0.51);
    }
  }
}

TEST(Image, EveryTruncation) {
  for (const fs::path& path : seeds()) {
    const Bytes whole = read_all(path);
    for (size_t n = 0; n < whole.size(); ++n) {
      Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      part.shrink_to_fit();
      const Decoded d = decode(part, kTesseraRgb);
      EXPECT_EQ(d.outcome == kTesseraImageOk, d.message.empty()) << path << " " << n << " " << d.message;
    }
  }
}

void mutate(Bytes& bytes, std::mt19937& random) {
  for (unsigned k = 0, edits = 1 + random() % 4; k < edits && !bytes.empty(); ++k) {
    const size_t at = random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0: bytes[at] = static_cast<uint8_t>(random()); break;
      case 1: bytes[at] = static_cast<uint8_t>(bytes[at] ^ 1u << random() % 8); break;
      case 2: bytes[at] = random() % 2 ? 0xff : 0; break;
      case 3: bytes.erase(place); break;
      default: bytes.insert(place, static_cast<uint8_t>(random())); break;
    }
  }
}

TEST(Image, RandomMutations) {
  const char* text = std::getenv("TESSERA_MUTATIONS");
  const int total = text ? std::atoi(text) : 140000;
  std::mt19937 random(7);
  std::vector<Bytes> files;
  for (const fs::path& path : seeds()) files.push_back(read_all(path));
  int read = 0;
  for (int i = 0; i < total; ++i) {
    Bytes bytes = files[static_cast<size_t>(i) % files.size()];
    mutate(bytes, random);
    bytes.shrink_to_fit();
    const Decoded d = decode(bytes, i % 3);
    ASSERT_EQ(d.outcome == kTesseraImageOk, d.message.empty()) << d.message;
    read += d.outcome == kTesseraImageOk;
  }
  std::printf("%d of %d damaged images were still read\n", read, total);
}

TEST(Image, ManyPixelsAreRefusedBeforeMemoryIsAskedFor) {
  const std::string text = "P5 65536 65536 255\n";
  const Decoded d = decode(Bytes(text.begin(), text.end()), kTesseraGray, 1 << 28);
  EXPECT_EQ(d.outcome, kTesseraImageTooLarge);
  EXPECT_EQ(d.message, "PNM: 65536 x 65536 pixels, at most 268435456 are read");
}

TEST(Image, UnknownBytesAreNoImage) {
  EXPECT_EQ(decode({}, kTesseraRgb).outcome, kTesseraImageUnreadable);
  EXPECT_EQ(decode({1, 2, 3, 4}, kTesseraRgb).outcome, kTesseraImageUnreadable);
}

TEST(Companion, AMissingFileSaysWhereItWasLookedForAndWhatGivesIt) {
  Companion missing("libtessera_missing.so", "tessera_missing", 1, "libmissing-dev");
  const auto table = missing.table();
  ASSERT_FALSE(table.ok());
  const std::string& text = table.status().message();
  EXPECT_EQ(table.status().code(), Code::no_such_file);
  for (const char* part : {"libtessera_missing.so", "/bin", "/bin/../lib", "TESSERA_COMPANIONS", "libmissing-dev"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Companion, AnotherVersionIsRefused) {
  Companion other("libtessera_image.so", "tessera_image", kTesseraImageVersion + 1, "");
  const auto table = other.table();
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.status().message().find("another release"), std::string::npos) << table.status().message();
}

TEST(Companion, IsFoundBesideTheProgramAndOpenedOnce) {
  Companion image("libtessera_image.so", "tessera_image", kTesseraImageVersion, "");
  const auto first = image.table(), second = image.table();
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(*first, *second);
}

}  // namespace
}  // namespace tessera
