// The programs in README.md compile, run and say what they should, as C99 and as C++17; so do the commands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

const std::string kSource = TESSERA_SOURCE_DIR, kLibrary = TESSERA_BINARY_DIR "/lib/libtessera.so";

// The first block of README.md that is fenced as `language`.
std::string snippet(const std::string& language) {
  std::ifstream file(kSource + "/README.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}}, fence = "```" + language + "\n";
  const size_t begin = text.find(fence);
  if (begin == std::string::npos) return {};
  return text.substr(begin + fence.size(), text.find("\n```", begin) + 1 - begin - fence.size());
}

// What a program needs to be linked with the library of this build.
#if defined(__SANITIZE_ADDRESS__)
const std::string kFlags = " -fsanitize=address,undefined";
#elif defined(__SANITIZE_THREAD__)
const std::string kFlags = " -fsanitize=thread";
#else
const std::string kFlags;
#endif

struct Finished {
  int status;
  std::string output;
};

Finished shell(const std::string& command) {
  Finished f{-1, {}};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return f;
  char piece[256];
  while (const size_t n = std::fread(piece, 1, sizeof piece, pipe)) f.output.append(piece, n);
  f.status = pclose(pipe);
  return f;
}

// What the program prints, run in the source folder.
std::string output_of(const std::string& language, const std::string& compiler, const std::string& suffix) {
  const std::string program = testing::TempDir() + "tessera_readme_" + language, file = program + suffix;
  std::ofstream(file) << snippet(language);
  const Finished compiled = shell(compiler + kFlags + " -Wall -Wextra -Werror -I" + kSource + "/include " + file + " " +
                                  kLibrary + " -Wl,-rpath," TESSERA_BINARY_DIR "/lib -o " + program);
  EXPECT_EQ(compiled.status, 0) << compiled.output;
  const Finished run = shell("cd " + kSource + " && " + program);
  EXPECT_EQ(run.status, 0) << run.output;
  std::filesystem::remove(file);
  std::filesystem::remove(program);
  return run.output;
}

TEST(Readme, TheProgramInC) { EXPECT_EQ(output_of("c", "cc -std=c99", ".c"), "1 input\n"); }

TEST(Readme, TheProgramInCpp) {
  const std::string said = output_of("cpp", "c++ -std=c++17", ".cc");
  EXPECT_EQ(std::count(said.begin(), said.end(), ' '), 10) << said;
}

// Lines of every block of README.md that is fenced as sh, without comments.
std::vector<std::string> commands() {
  std::ifstream file(kSource + "/README.md");
  std::vector<std::string> out;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("```", 0) == 0)
      inside = line == "```sh";
    else if (inside)
      out.push_back(line.substr(0, line.find(" #")));
  }
  return out;
}

TEST(Readme, TheCommands) {
  const std::string built = "build/release/";
  int checked = 0;
  for (const std::string& line : commands()) {
    SCOPED_TRACE(line);
    // ./dev installs and builds: here only that it knows the command.
    const bool is_dev = line.rfind("./dev ", 0) == 0;
    const Finished f = shell("cd " + kSource + " && " +
                             (is_dev ? line + " --help" : TESSERA_BINARY_DIR "/" + line.substr(built.size())));
    EXPECT_EQ(f.status, 0) << f.output;
    EXPECT_FALSE(f.output.empty());
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

}  // namespace
