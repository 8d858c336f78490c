// One library with ORT's C ABI in a process of its own, asked for bursts of runs in turn with others, so that all see
// the same machine. The program that includes this hands "--worker ..." command lines to work().
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "onnxruntime_c_api.h"

namespace tessera::bench {

namespace fs = std::filesystem;

inline double clock_seconds(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Times {
  double cpu = 0, wall = 0;
};
template <class F>
Times timed(F&& f) {
  const double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID), wall = clock_seconds(CLOCK_MONOTONIC);
  f();
  return {clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, clock_seconds(CLOCK_MONOTONIC) - wall};
}

inline double status_kib(const char* key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::atof(line.c_str() + std::strlen(key) + 1);
  return 0;
}

struct Job {
  std::string library, model;
  int threads = 1;
  bool optimise = true;
  bool share = false;  // an output "present..." is written where the input "past..." lies
  std::vector<std::pair<std::string, int64_t>> dims;
  int64_t default_dim = 1;

  // As a command line of this program, and back.
  std::vector<std::string> words() const {
    std::vector<std::string> out{"bench_worker",
                                 "--worker",
                                 library,
                                 model,
                                 std::to_string(threads),
                                 optimise ? "1" : "0",
                                 std::to_string(default_dim)};
    if (share) out.push_back("share");
    for (const auto& [name, size] : dims) out.push_back(name + "=" + std::to_string(size));
    return out;
  }
  static Job from_words(int argc, char** argv) {
    Job job;
    job.library = argv[2];
    job.model = argv[3];
    job.threads = std::atoi(argv[4]);
    job.optimise = argv[5][0] == '1';
    job.default_dim = std::atoll(argv[6]);
    for (int i = 7; i < argc; ++i)
      if (std::strcmp(argv[i], "share"))
        job.add_dim(argv[i]);
      else
        job.share = true;
    return job;
  }
  void add_dim(const std::string& text) {
    if (const size_t eq = text.find('='); eq != text.npos)
      dims.push_back({text.substr(0, eq), std::atoll(text.c_str() + eq + 1)});
  }
};

class Engine {
 public:
  explicit Engine(const Job& job) : job_(job) {
    void* handle = dlopen(job.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail(dlerror());
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (!base) fail("the library has no OrtGetApiBase");
    api_ = base()->GetApi(17);
    if (!api_) fail("the library does not offer API version 17");
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bench", &env_));
  }

  void load() {
    OrtSessionOptions* options = nullptr;
    check(api_->CreateSessionOptions(&options));
    check(api_->SetIntraOpNumThreads(options, job_.threads));
    if (!job_.optimise) check(api_->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
    check(api_->CreateSession(env_, job_.model.c_str(), options, &session_));
    api_->ReleaseSessionOptions(options);
  }

  void make_inputs() {
    OrtAllocator* allocator = nullptr;
    OrtMemoryInfo* info = nullptr;
    check(api_->GetAllocatorWithDefaultOptions(&allocator));
    check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
    size_t n = 0;
    check(api_->SessionGetInputCount(session_, &n));
    for (size_t i = 0; i < n; ++i) {
      char* name = nullptr;
      check(api_->SessionGetInputName(session_, i, allocator, &name));
      names_.push_back(name);
      inputs_.push_back(make_input(i, info));
    }
    check(api_->SessionGetOutputCount(session_, &n));
    for (size_t i = 0; i < n; ++i) {
      char* name = nullptr;
      check(api_->SessionGetOutputName(session_, i, allocator, &name));
      output_names_.push_back(name);
    }
    for (const char* name : output_names_) fixed_.push_back(job_.share ? shared_input(name) : nullptr);
    api_->ReleaseMemoryInfo(info);
  }

  void run() {
    outputs_ = fixed_;
    check(api_->Run(session_, nullptr, names_.data(), inputs_.data(), names_.size(), output_names_.data(),
                    output_names_.size(), outputs_.data()));
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!fixed_[i]) api_->ReleaseValue(outputs_[i]);
  }

  [[noreturn]] static void fail(const char* why) {
    std::printf("error %s\n", why);
    std::fflush(stdout);
    _exit(1);
  }

 private:
  void check(OrtStatus* status) {
    if (status) fail(api_->GetErrorMessage(status));
  }

  // The input "pastX" for the output "presentX", if there is one.
  OrtValue* shared_input(const std::string& output) const {
    if (output.rfind("present", 0) != 0) return nullptr;
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == "past" + output.substr(7)) return inputs_[i];
    return nullptr;
  }

  OrtValue* make_input(size_t i, OrtMemoryInfo* info) {
    OrtTypeInfo* type = nullptr;
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    check(api_->SessionGetInputTypeInfo(session_, i, &type));
    check(api_->CastTypeInfoToTensorInfo(type, &tensor));
    if (!tensor) fail("only tensor inputs can be measured");
    ONNXTensorElementDataType element;
    size_t rank = 0;
    check(api_->GetTensorElementType(tensor, &element));
    check(api_->GetDimensionsCount(tensor, &rank));
    std::vector<int64_t> dims(rank);
    std::vector<const char*> symbols(rank, nullptr);
    check(api_->GetDimensions(tensor, dims.data(), rank));
    check(api_->GetSymbolicDimensions(tensor, symbols.data(), rank));
    int64_t count = 1;
    for (size_t d = 0; d < rank; ++d) {
      if (dims[d] < 0) dims[d] = job_.default_dim;
      for (const auto& [name, size] : job_.dims)
        if (symbols[d] && name == symbols[d]) dims[d] = size;
      count *= dims[d];
    }
    const size_t bytes = element_bytes(element) * static_cast<size_t>(count);
    data_.emplace_back(bytes + 64);
    char* at = data_.back().data() + (64 - reinterpret_cast<uintptr_t>(data_.back().data()) % 64);
    fill(element, at, count);
    OrtValue* value = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(info, at, bytes, dims.data(), rank, element, &value));
    api_->ReleaseTypeInfo(type);
    return value;
  }

  static size_t element_bytes(ONNXTensorElementDataType t) {
    const int bits = bits_of(static_cast<DType>(t));
    return static_cast<size_t>(std::max(8, bits)) / 8;
  }
  // Floats in [-1, 1) (half floats: 0.25 to 1 and their negatives), any byte, other integers 0 or 1: valid as indexes,
  // masks and lengths.
  static void fill(ONNXTensorElementDataType t, char* at, int64_t count) {
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; i < count; ++i) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
        reinterpret_cast<float*>(at)[i] = static_cast<float>(state >> 40) / 8388608.0f - 1.0f;
      else if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16)
        reinterpret_cast<uint16_t*>(at)[i] =
            static_cast<uint16_t>(0x3400 + (state >> 40) % 0x800 + (state & 1) * 0x8000);
      else if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
        reinterpret_cast<int64_t*>(at)[i] = static_cast<int64_t>(state & 1);
      else if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32)
        reinterpret_cast<int32_t*>(at)[i] = static_cast<int32_t>(state & 1);
      else if (t == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 || t == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8)
        at[i] = static_cast<char>(state >> 40);
      else
        std::memset(at + static_cast<size_t>(i) * element_bytes(t), 0, element_bytes(t));
    }
  }

  Job job_;
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtSession* session_ = nullptr;
  std::vector<const char*> names_, output_names_;
  std::vector<OrtValue*> inputs_, outputs_, fixed_;  // fixed_: memory of outputs that is given, or null
  std::vector<std::vector<char>> data_;
};

// Answers commands on stdin: "load", "first", "runs SECONDS", "loop COUNT", "memory". One line of numbers each.
inline int work(const Job& job) {
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Engine engine(job);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    if (!std::strncmp(line, "load", 4)) {
      const double anonymous = status_kib("RssAnon:");
      const Times t = timed([&] { engine.load(); });
      std::printf("%.9f %.9f %.0f\n", t.cpu, t.wall, status_kib("RssAnon:") - anonymous);
    } else if (!std::strncmp(line, "first", 5)) {
      engine.make_inputs();
      const Times t = timed([&] { engine.run(); });
      std::printf("%.9f %.9f\n", t.cpu, t.wall);
    } else if (!std::strncmp(line, "runs", 4)) {
      const double end = clock_seconds(CLOCK_MONOTONIC) + std::atof(line + 4);
      do {
        const Times t = timed([&] { engine.run(); });
        std::printf("%.9f %.9f ", t.cpu, t.wall);
      } while (clock_seconds(CLOCK_MONOTONIC) < end);
      std::printf("\n");
    } else if (!std::strncmp(line, "loop", 4)) {
      const int64_t count = std::atoll(line + 4);
      const Times t = timed([&] {
        for (int64_t i = 0; i < count; ++i) engine.run();
      });
      std::printf("%.9f %.9f\n", t.cpu, t.wall);
    } else {
      std::printf("%.0f\n", status_kib("VmHWM:"));
    }
    std::fflush(stdout);
  }
  return 0;
}

struct ChildPipes {
  pid_t pid;
  FILE *in, *out;  // its standard input and output
};

// This program once more, with these arguments. A fresh process: it inherits no memory and, thanks to O_CLOEXEC, no
// pipe of another child.
inline ChildPipes start_child(std::vector<std::string> words) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) std::exit(2);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  return {pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
}

class Worker {
 public:
  explicit Worker(const Job& job) : child_(start_child(job.words())) {}
  ~Worker() {
    std::fclose(child_.in);
    std::fclose(child_.out);
    waitpid(child_.pid, nullptr, 0);
  }
  // The numbers it answers; empty with error() set if it cannot.
  std::vector<double> ask(const std::string& command) {
    if (!error_.empty()) return {};
    std::fprintf(child_.in, "%s\n", command.c_str());
    std::fflush(child_.in);
    char* line = nullptr;
    size_t room = 0;
    std::vector<double> out;
    if (getline(&line, &room, child_.out) < 0) {
      error_ = "the process ended";
    } else if (!std::strncmp(line, "error ", 6)) {
      error_ = line + 6;
      while (!error_.empty() && error_.back() == '\n') error_.pop_back();
    } else {
      char* at = line;
      for (char* end; out.push_back(std::strtod(at, &end)), end != at; at = end) {
      }
      out.pop_back();
    }
    std::free(line);
    return out;
  }
  const std::string& error() const { return error_; }

 private:
  ChildPipes child_;
  std::string error_;
};

// True if this process is a worker; *status is then what main returns.
inline bool is_worker(int argc, char** argv, int* status) {
  if (argc < 7 || std::strcmp(argv[1], "--worker")) return false;
  *status = work(Job::from_words(argc, argv));
  return true;
}

// Our library beside this program.
inline std::string find_ours() {
  return (fs::canonical("/proc/self/exe").parent_path().parent_path() / "lib/libtessera.so").string();
}

// The library of an onnxruntime wheel in build/venv, if there is one.
inline std::string find_peer() {
  const fs::path venv = "build/venv/lib";
  std::error_code ec;
  for (const auto& e : fs::recursive_directory_iterator(venv, ec))
    if (e.path().filename().string().rfind("libonnxruntime.so.", 0) == 0) return e.path().string();
  return {};
}

}  // namespace tessera::bench
