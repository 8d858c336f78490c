// labels: robust
// What the shared libraries give to the process that loads them, and what they ask of it.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace {

using Names = std::set<std::string>;

// The dynamic section of a 64-bit ELF file of this machine's byte order.
class Library {
 public:
  explicit Library(const std::string& name) {
    std::ifstream file(std::string(TESSERA_BINARY_DIR) + "/lib/" + name, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return;
    const auto header = at<Elf64_Ehdr>(0);
    for (int i = 0; i < header.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(header.e_shoff + static_cast<size_t>(i) * header.e_shentsize);
      if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
      const auto texts = at<Elf64_Shdr>(header.e_shoff + section.sh_link * header.e_shentsize);
      if (section.sh_type == SHT_DYNSYM) read_symbols(section, texts);
      if (section.sh_type == SHT_DYNAMIC) read_dynamic(section, texts);
    }
  }

  Names defined, undefined, needed;
  bool has_versions = false;

 private:
  template <class T>
  T at(size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= bytes_.size()) std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  void read_symbols(const Elf64_Shdr& section, const Elf64_Shdr& texts) {
    for (size_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = at<Elf64_Sym>(section.sh_offset + i * sizeof(Elf64_Sym));
      (symbol.st_shndx == SHN_UNDEF ? undefined : defined).insert(&bytes_[texts.sh_offset + symbol.st_name]);
    }
  }
  void read_dynamic(const Elf64_Shdr& section, const Elf64_Shdr& texts) {
    for (size_t i = 0; i < section.sh_size / sizeof(Elf64_Dyn); ++i) {
      const auto entry = at<Elf64_Dyn>(section.sh_offset + i * sizeof(Elf64_Dyn));
      has_versions = has_versions || entry.d_tag == DT_VERDEF;
      if (entry.d_tag == DT_NEEDED) needed.insert(&bytes_[texts.sh_offset + entry.d_un.d_val]);
    }
  }
  std::vector<char> bytes_;
};

class SymbolsTest : public testing::TestWithParam<const char*> {};

// Sanitizers add symbols of their own.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_P(SymbolsTest, GivesTheEntryPointsOnly) {
  if (kSanitized) GTEST_SKIP();
  const Library library(GetParam());
  EXPECT_EQ(library.defined, (Names{"OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU", "TesseraGetApi"}));
  EXPECT_FALSE(library.has_versions);  // so that programs linked to any version's names find them
}

TEST_P(SymbolsTest, NeedsTheLanguagesLibrariesOnly) {
  if (kSanitized) GTEST_SKIP();
  const Names known = {"libstdc++.so.6", "libm.so.6",       "libgcc_s.so.1",        "libc.so.6",
                       "libdl.so.2",     "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
  const Library library(GetParam());
  EXPECT_FALSE(library.needed.empty());
  for (const std::string& name : library.needed) EXPECT_TRUE(known.count(name)) << name;
}

TEST_P(SymbolsTest, AsksNothingOfTheNetwork) {
  const Library library(GetParam());
  ASSERT_FALSE(library.undefined.empty());
  for (const char* name : {"socket", "connect", "bind", "listen", "accept", "accept4", "send", "sendto", "sendmsg",
                           "recv", "recvfrom", "recvmsg", "getaddrinfo", "gethostbyname", "res_query"})
    EXPECT_FALSE(library.undefined.count(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Libraries, SymbolsTest, testing::Values("libtessera.so", "libtessera_minimal.so"));

}  // namespace
