// tessera trim: a library with the operators of some models, built from Tessera's sources and proven with those models.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "trim_list.h"
#include "trim_prove.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> inputs;  // models and configurations
  std::string out, source = TESSERA_SOURCE, build, library, targets = "avx2";
  int jobs = 0;
  bool list_only = false;

  std::string build_folder() const { return build.empty() ? out + "/build" : build; }
};

bool is_model(const std::string& path) {
  return path.ends_with(".onnx") || path.ends_with(".ort") || is_text_model(path);
}

// --- other programs

// Replaces this process; what it says goes to the pipe.
[[noreturn]] void become(const std::vector<std::string>& command, int pipe) {
  dup2(pipe, 1);
  dup2(pipe, 2);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(2, "%s is not installed\n", command[0].c_str());
  _exit(127);
}

// The last lines of what a program says, with a line of progress now and then.
class Talk {
 public:
  explicit Talk(const std::string& title) : title_(title) {}

  void add(std::string_view text) {
    for (const char c : text) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      tail_ += line_ + "\n";
      if (tail_.size() > kMost) tail_.erase(0, tail_.size() - kMost);
      tell();
      line_.clear();
    }
  }
  std::string tail() const { return tail_ + line_; }

 private:
  static constexpr size_t kMost = 4000;

  // On a terminal every step, elsewhere a line every five seconds.
  void tell() {
    progress_.say(title_ + ": " + line_);
    const auto now = std::chrono::steady_clock::now();
    if (isatty(2) || line_.empty() || now < next_) return;
    next_ = now + std::chrono::seconds(5);
    std::fprintf(stderr, "%s: %.100s\n", title_.c_str(), line_.c_str());
  }

  std::string title_, line_, tail_;
  Progress progress_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

Status call(const std::string& title, const std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) return error(Code::fail, "cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) return error(Code::fail, "cannot start {}", command[0]);
  if (child == 0) {
    close(ends[0]);
    become(command, ends[1]);
  }
  close(ends[1]);
  Talk talk(title);
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    talk.add({buffer, static_cast<size_t>(n)});
  }
  close(ends[0]);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
  return error(Code::fail, "{} failed:\n{}", title, talk.tail());
}

// --- steps

Result<OperatorList> gather(const Options& o, const OperatorFiles& files) {
  OperatorList seen, said;
  for (const std::string& path : o.inputs) TRY(is_model(path) ? add_model(path, seen) : add_config(path, said));
  TRY(files.add_parts(said));
  for (auto& [key, needed] : said) {
    Needed& all = seen[key];
    all.opsets.merge(needed.opsets);
    for (auto& [i, types] : needed.inputs) all.inputs[i].merge(types);
    for (auto& [i, types] : needed.outputs) all.outputs[i].merge(types);
  }
  return seen;
}

Status write_lists(const Options& o, const OperatorList& list, const OperatorFiles& files) {
  TRY_ASSIGN(text, files.to_list(list));
  std::error_code e;
  fs::create_directories(o.out, e);
  if (e) return error(Code::fail, "cannot make the folder {}: {}", quote(o.out), e.message());
  TRY(write_file(o.out + "/operators.config", to_config(list)));
  // The time of a list that stays the same stays too, so nothing is configured again.
  const std::string path = o.out + "/operators.txt";
  const auto old = map_file(path);
  if (old.ok() && std::string_view(reinterpret_cast<const char*>((*old)->data()), (*old)->size()) == text) return {};
  return write_file(path, text);
}

Status build(const Options& o) {
  const std::string jobs = std::to_string(o.jobs > 0 ? o.jobs : static_cast<int>(std::thread::hardware_concurrency()));
  TRY(call("configure",
           {"cmake", "-S", o.source, "-B", o.build_folder(), "--preset", "minimal",
            "-DTESSERA_OPS=" + fs::absolute(o.out).string() + "/operators.txt", "-DTESSERA_TARGETS=" + o.targets}));
  return call("build", {"cmake", "--build", o.build_folder(), "-j", jobs, "--target", "tessera_minimal",
                        "tessera_minimal_static"});
}

// The library under its final name, without symbols that only debuggers read.
Status deliver(const Options& o, const std::string& name, const char* what_to_strip) {
  const std::string to = o.out + "/" + name, between = to + ".new";
  std::error_code e;
  fs::copy_file(o.build_folder() + "/lib/" + name, between, fs::copy_options::overwrite_existing, e);
  if (e) return error(Code::fail, "cannot copy {}: {}", quote(name), e.message());
  TRY(call("strip", {"strip", what_to_strip, between}));
  fs::rename(between, to, e);
  if (e) return error(Code::fail, "cannot name {}: {}", quote(to), e.message());
  std::printf("%s: %s\n", to.c_str(), human_bytes(static_cast<int64_t>(fs::file_size(to, e))).c_str());
  return {};
}

Status prove(const Options& o, const std::string& path) {
  TRY_ASSIGN(library, OtherLibrary::open(path));
  for (const std::string& model : o.inputs) {
    if (!is_model(model)) continue;
    Result<int> runs = library->prove(model);
    if (!runs.ok()) return runs.take_status().in(quote(model));
    std::printf("%s: %d run%s through it, the same answers as the full library's\n", model.c_str(), *runs,
                *runs == 1 ? "" : "s");
  }
  return {};
}

std::string types_in(const OperatorList& list) {
  std::set<std::string> types;
  for (const auto& [key, needed] : list)
    for (const auto* by_argument : {&needed.inputs, &needed.outputs})
      for (const auto& [i, names] : *by_argument) types.insert(names.begin(), names.end());
  std::string out;
  for (const std::string& t : types) out += (out.empty() ? "" : ", ") + t;
  return out.empty() ? "any type" : out;
}

Status trim(const Options& o) {
  if (!o.library.empty()) return prove(o, o.library);
  if (o.out.empty()) return invalid("-o DIR is missing: the folder for what is made");
  TRY_ASSIGN(files, OperatorFiles::read(o.source));
  TRY_ASSIGN(list, gather(o, files));
  TRY(write_lists(o, list, files));
  std::printf("%s/operators.txt: %zu operators, %s\n", o.out.c_str(), list.size(), types_in(list).c_str());
  std::fflush(stdout);
  if (o.list_only) return {};
  TRY(build(o));
  TRY(deliver(o, "libtessera_minimal.so", "--strip-all"));
  TRY(deliver(o, "libtessera_minimal.a", "--strip-debug"));
  return prove(o, o.out + "/libtessera_minimal.so");
}

}  // namespace

void add_trim(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("trim", "Build a library that has the operators of some models and no others");
  cmd->footer(
      "INPUT is a model, or a list in ONNX Runtime's reduced-operator syntax (domain;opset;Op1,Op2). DIR gets\n"
      "libtessera_minimal.so and .a, operators.txt (for -DTESSERA_OPS) and operators.config (with types, to be read\n"
      "again). The models run through the new library, with the test data beside them or random inputs, and must "
      "answer\n"
      "as the full library does.\n"
      "Examples:\n  tessera trim model.onnx -o small\n  tessera trim a.onnx b.ort more.config -o small --jobs 2\n"
      "  tessera trim --list-only model.onnx -o small\n");
  cmd->add_option("inputs", o->inputs, "Models and lists of operators")->required()->check(CLI::ExistingFile);
  cmd->add_option("-o,--output", o->out, "Folder for what is made");
  cmd->add_option("--source", o->source, "Tessera's sources (default: what this command was built from)");
  cmd->add_option("--build", o->build, "Folder to build in (default: DIR/build); kept, so the next time is quick");
  cmd->add_option("--targets", o->targets, "CPU targets of the kernels")->check(CLI::IsMember({"avx2", "all"}));
  cmd->add_option("--jobs", o->jobs, "Compilers at a time (default: all cores)")->check(CLI::Range(1, 1024));
  cmd->add_option("--prove", o->library, "Build nothing; run the models through this library instead");
  cmd->add_flag("--list-only", o->list_only, "Write the lists and build nothing");
  cmd->callback([o, &exit_code] {
    const Status s = trim(*o);
    exit_code = s.ok() ? kOk : complain(s.message(), kFailed);
  });
}

}  // namespace tessera::cli
