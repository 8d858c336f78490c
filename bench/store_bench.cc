// store_bench: weights on disk and in memory, our library beside a peer with ORT's C ABI, criterion by criterion.
//
// Every figure comes from a fresh process that does one thing: open a model in some way, perhaps several times, perhaps
// run it. Memory is read from /proc, CPU time from the clock of the process, what was read from disk from the page
// cache. FP32 is 24 products of 2048 x 2048 with their weights in a file, ODD two of 257 x 257, IF two branches with
// weights of their own. Models in ORT's own format (.ort) are opened too, also by the minimal library, and kernels are
// looked up for as many nodes as the largest graphs have. Criteria that are no figures are those tests that check them,
// built beside this program.
#include <sys/mman.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "base/file.h"
#include "base/format.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "ops/op.h"
#include "peer.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

constexpr double kMiB = 1 << 20;

// What a child process is asked to do.
struct Task {
  std::string library, model;
  std::string weights = {};              // a file to map and hand over under its own name
  std::vector<std::string> config = {};  // key=value
  std::string save = {};                 // where the optimised model goes
  int sessions = 1, rows = 1, columns = 2048;
  bool run = false, protect = false, second_process = false;

  std::vector<std::string> words() const {
    std::vector<std::string> w{"store_child",
                               "--child",
                               library,
                               model,
                               weights,
                               save,
                               std::to_string(sessions),
                               std::to_string(rows),
                               std::to_string(columns),
                               run ? "1" : "0",
                               protect ? "1" : "0",
                               second_process ? "1" : "0"};
    w.insert(w.end(), config.begin(), config.end());
    return w;
  }
  static Task from_words(char** a, int n) {
    Task t{a[2], a[3], a[4], {}, a[5], std::atoi(a[6]), std::atoi(a[7]), std::atoi(a[8])};
    t.run = a[9][0] == '1';
    t.protect = a[10][0] == '1';
    t.second_process = a[11][0] == '1';
    for (int i = 12; i < n; ++i) t.config.push_back(a[i]);
    return t;
  }
};

double rollup_kib(const char* key) {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::atof(line.c_str() + std::strlen(key));
  return 0;
}

class Child {
 public:
  explicit Child(const Task& t) : t_(t) {}

  // One line per session: CPU s of opening, MiB of peak, anonymous and file memory since the start, the sum of the
  // outputs, and after a run again anonymous and all memory; then private dirty and shared file memory.
  int work() {
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    void* handle = dlopen(t_.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return fail(dlerror());
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    api_ = base()->GetApi(18);
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "store", &env_));
    map_weights();
    std::vector<OrtSession*> sessions;
    for (int i = 0; i < t_.sessions; ++i) {
      std::ofstream("/proc/self/clear_refs") << "5";
      const double anonymous = status_kib("RssAnon:"), all = status_kib("VmRSS:"), file = all - anonymous;
      const Times times = timed([&] { sessions.push_back(open()); });
      const double peak = status_kib("VmHWM:") - all, held = status_kib("RssAnon:") - anonymous;
      const double mapped = status_kib("VmRSS:") - status_kib("RssAnon:") - file;
      if (t_.protect && memory_) mprotect(memory_, size_, PROT_NONE);
      double sum = 0;
      if (t_.run) sum = run(sessions.back());
      std::printf("%.6f %.3f %.3f %.3f %.9g %.3f %.3f\n", times.cpu, peak / 1024, held / 1024, mapped / 1024, sum,
                  (status_kib("RssAnon:") - anonymous) / 1024, (status_kib("VmRSS:") - all) / 1024);
    }
    if (t_.second_process) {  // both are there when either looks
      std::printf("ready\n");
      std::fflush(stdout);
      char line[8];
      if (!std::fgets(line, sizeof line, stdin)) return 1;
      std::printf("%.3f %.3f\n", rollup_kib("Private_Dirty:") / 1024, rollup_kib("Pss_File:") / 1024);
      std::fflush(stdout);
      if (!std::fgets(line, sizeof line, stdin)) return 1;
    }
    std::fflush(stdout);
    _exit(0);
  }

 private:
  static int fail(const char* why) {
    std::printf("error %s\n", why);
    std::fflush(stdout);
    _exit(1);
  }
  void check(OrtStatus* s) {
    if (s) fail(api_->GetErrorMessage(s));
  }
  void map_weights() {
    if (t_.weights.empty()) return;
    const int fd = ::open(t_.weights.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat st {};
    if (fd < 0 || fstat(fd, &st)) fail("the weights cannot be opened");
    size_ = static_cast<size_t>(st.st_size);
    memory_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
  }
  OrtSession* open() {
    OrtSessionOptions* o = nullptr;
    check(api_->CreateSessionOptions(&o));
    check(api_->SetIntraOpNumThreads(o, 1));
    for (const std::string& c : t_.config) {
      const size_t eq = c.find('=');
      check(api_->AddSessionConfigEntry(o, c.substr(0, eq).c_str(), c.substr(eq + 1).c_str()));
    }
    if (!t_.save.empty()) check(api_->SetOptimizedModelFilePath(o, t_.save.c_str()));
    if (memory_) {
      const std::string name = t_.weights.substr(t_.weights.rfind('/') + 1);
      const char* names[] = {name.c_str()};
      char* buffers[] = {static_cast<char*>(memory_)};
      check(api_->AddExternalInitializersFromFilesInMemory(o, names, buffers, &size_, 1));
    }
    OrtSession* s = nullptr;
    check(api_->CreateSession(env_, t_.model.c_str(), o, &s));
    api_->ReleaseSessionOptions(o);
    return s;
  }
  // The sum of the absolute outputs for every number of rows up to that of the task, so that any difference shows.
  double run(OrtSession* session) {
    OrtMemoryInfo* info = nullptr;
    check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
    size_t inputs = 0;
    check(api_->SessionGetInputCount(session, &inputs));
    double sum = 0;
    for (int m = 1; m <= t_.rows; ++m) {
      std::vector<float> x(static_cast<size_t>(m) * static_cast<size_t>(t_.columns));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 8 - 1;
      const int64_t shape[] = {m, t_.columns};
      bool flag = m % 2;
      OrtValue *in[2] = {}, *out = nullptr;
      check(api_->CreateTensorWithDataAsOrtValue(info, x.data(), x.size() * 4, shape, 2,
                                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in[0]));
      check(api_->CreateTensorWithDataAsOrtValue(info, &flag, 1, shape, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, &in[1]));
      const char *in_names[] = {"x", "flag"}, *out_names[] = {"y"};
      check(api_->Run(session, nullptr, in_names, in, inputs, out_names, 1, &out));
      float* y = nullptr;
      check(api_->GetTensorMutableData(out, reinterpret_cast<void**>(&y)));
      for (size_t i = 0; i < x.size(); ++i) sum += std::fabs(static_cast<double>(y[i]));
      api_->ReleaseValue(in[0]);
      api_->ReleaseValue(in[1]);
      api_->ReleaseValue(out);
    }
    return sum;
  }

  const Task t_;
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

struct Figures {
  double cpu = NAN, peak = NAN, anonymous = NAN, file = NAN, sum = NAN, anonymous_run = NAN, all_run = NAN;
};
struct Answer {
  std::vector<Figures> sessions;
  double dirty = NAN, shared = NAN;
  std::string error;  // why there are none
  Figures first() const { return sessions.empty() ? Figures{} : sessions[0]; }
};

class Process {
 public:
  explicit Process(const Task& t) : child_(start_child(t.words())) {}
  void wait_until_ready() { read_lines(); }
  void go() {
    std::fputs("go\n", child_.in);
    std::fflush(child_.in);
    read_lines();
  }
  Answer finish() {
    std::fclose(child_.in);
    read_lines();
    std::fclose(child_.out);
    int status = 0;
    waitpid(child_.pid, &status, 0);
    if (WIFSIGNALED(status)) answer_.error = format("signal {}", WTERMSIG(status));
    return answer_;
  }

 private:
  void read_lines() {
    char* line = nullptr;
    size_t room = 0;
    while (getline(&line, &room, child_.out) > 0) {
      Figures f;
      if (!std::strncmp(line, "error ", 6)) answer_.error = std::string(line + 6, std::strcspn(line + 6, "\n"));
      if (!std::strncmp(line, "ready", 5)) break;
      const int n = std::sscanf(line, "%lf %lf %lf %lf %lf %lf %lf", &f.cpu, &f.peak, &f.anonymous, &f.file, &f.sum,
                                &f.anonymous_run, &f.all_run);
      if (n == 7) answer_.sessions.push_back(f);
      if (n == 2) {
        answer_.dirty = f.cpu;
        answer_.shared = f.peak;
        break;
      }
    }
    std::free(line);
  }
  ChildPipes child_;
  Answer answer_;
};

Answer ask(const Task& t) { return Process(t).finish(); }

// The least CPU time of several fresh processes, with the other figures of the first.
Answer ask_often(const Task& t, int times = 5) {
  Answer best = ask(t);
  for (int i = 1; i < times && best.error.empty(); ++i)
    best.sessions[0].cpu = std::min(best.sessions[0].cpu, ask(t).first().cpu);
  return best;
}

// --- models

void must(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "store_bench: %s\n", s.message().c_str());
  std::exit(2);
}

void write_floats(const fs::path& path, int64_t count, float scale) {
  std::vector<float> block(1 << 20);
  uint32_t state = 1;
  for (float& f : block) f = scale * (static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 8388608.0f - 1);
  Result<std::unique_ptr<AtomicFile>> file = AtomicFile::create(path.string());
  if (!file.ok()) must(file.take_status());
  for (int64_t left = count; left > 0; left -= static_cast<int64_t>(block.size()))
    must((*file)->write(block.data(), 4 * static_cast<size_t>(std::min<int64_t>(left, 1 << 20))));
  must((*file)->finish());
}

void write_text(const fs::path& path, const std::string& text) {
  Result<Model> model = parse_text(text);
  if (!model.ok()) must(model.take_status());
  must(onnx::save_model(*model, path.string()));
}

// A chain of products with their weights in weights.bin.
std::string make_chain(const fs::path& folder, int layers, int64_t size) {
  fs::create_directories(folder);
  write_floats(folder / "weights.bin", layers * size * size, 1.7f / std::sqrt(static_cast<float>(size)));
  std::string weights, nodes;
  for (int i = 0; i < layers; ++i) {
    weights += format("{}float[{},{}] w{} = [\"location\": \"weights.bin\", \"offset\": \"{}\", \"length\": \"{}\"]",
                      i ? ", " : "", size, size, i, 4 * i * size * size, 4 * size * size);
    const std::string in = i ? format("h{}", i) : "x", out = i + 1 < layers ? format("h{}", i + 1) : "y";
    nodes += format("{} = MatMul ({}, w{})\n", out, in, i);
  }
  const std::string path = (folder / "model.onnx").string();
  write_text(path,
             format("<ir_version: 8, opset_import: [\"\" : 17]> net (float[M,{}] x) => (float[M,{}] y) <", size, size) +
                 weights + "> {" + nodes + "}");
  return path;
}

std::string make_branches(const fs::path& folder) {
  fs::create_directories(folder);
  write_floats(folder / "weights.bin", 2 * 64 * 64, 0.2f);
  const std::string path = (folder / "model.onnx").string();
  write_text(path, R"(<ir_version: 8, opset_import: ["" : 17]> net (float[M,64] x, bool flag) => (float[M,64] y) {
    y = If (flag) <then_branch = yes () => (float[M,64] t)
                     <float[64,64] a = ["location": "weights.bin", "offset": "0", "length": "16384"]> {
                     t = MatMul (x, a) },
                   else_branch = no () => (float[M,64] e)
                     <float[64,64] b = ["location": "weights.bin", "offset": "16384", "length": "16384"]> {
                     e = MatMul (x, b) }> })");
  return path;
}

// One sum of many small external initializers.
std::string make_many(const fs::path& folder, int count) {
  fs::create_directories(folder);
  write_floats(folder / "weights.bin", count * 4, 1);
  std::string weights, nodes;
  for (int i = 0; i < count; ++i) {
    weights += format("{}float[4] w{} = [\"location\": \"weights.bin\", \"offset\": \"{}\", \"length\": \"16\"]",
                      i ? ", " : "", i, 16 * i);
    nodes += format("{} = Add ({}, w{})\n", i + 1 < count ? format("h{}", i + 1) : "y", i ? format("h{}", i) : "x", i);
  }
  const std::string path = (folder / "model.onnx").string();
  write_text(path, "<ir_version: 8, opset_import: [\"\" : 17]> net (float[M,4] x) => (float[M,4] y) <" + weights +
                       "> {" + nodes + "}");
  return path;
}

void forget_cached(const fs::path& folder) {
  for (const auto& e : fs::directory_iterator(folder)) {
    const int fd = ::open(e.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

// Bytes of the folder's files that are in memory.
double cached_mib(const fs::path& folder) {
  double pages = 0;
  for (const auto& e : fs::directory_iterator(folder)) {
    const int fd = ::open(e.path().c_str(), O_RDONLY | O_CLOEXEC);
    const size_t size = fs::is_regular_file(e) ? fs::file_size(e) : 0;
    void* p = size ? mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
    if (p && p != MAP_FAILED) {
      std::vector<unsigned char> in((size + 4095) / 4096);
      mincore(p, size, in.data());
      for (const unsigned char c : in) pages += c & 1;
      munmap(p, size);
    }
    close(fd);
  }
  return pages * 4096 / kMiB;
}

// --- criteria

class Suite {
 public:
  Suite(std::string ours, std::string peer, fs::path folder, bool large)
      : ours_(std::move(ours)), peer_(std::move(peer)), folder_(std::move(folder)), large_(large) {}

  int run(bool only_ort) {
    std::printf("%-4s %-58s %14s %14s\n", "", "criterion", "ours", "peer");
    if (!only_ort) {
      make_models();
      packs_at_load();
      packs_in_memory();
      odd_and_branches();
      saving();
      buffers();
      as_tested();
    }
    opening_ort();
    looking_up();
    std::printf("%d passed, %d failed\n", passed_, total_ - passed_);
    return passed_ == total_ ? 0 : 1;
  }

 private:
  void row(const char* id, const std::string& what, double ours, double peer, bool holds, const char* unit) {
    ++total_;
    passed_ += holds;
    const auto text = [&](double v) { return std::isnan(v) ? std::string("-") : fixed(v) + " " + unit; };
    std::printf("%-4s %-58s %14s %14s   %s\n", id, what.c_str(), text(ours).c_str(), text(peer).c_str(),
                holds ? "pass" : "FAIL");
    std::fflush(stdout);
  }
  void verdict(const char* id, const std::string& what, const std::string& ours, const std::string& peer, bool holds) {
    ++total_;
    passed_ += holds;
    std::printf("%-4s %-58s %14s %14s   %s\n", id, what.c_str(), ours.substr(0, 14).c_str(), peer.substr(0, 14).c_str(),
                holds ? "pass" : "FAIL");
    std::fflush(stdout);
  }
  static std::string fixed(double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", v);
    return text;
  }
  Task ours(const std::string& model) const { return {.library = ours_, .model = model}; }
  Task peer(const std::string& model) const { return {.library = peer_, .model = model}; }

  // The model saved with its packs by one of the libraries.
  std::string saved(const Task& by, const std::string& name, Answer* answer = nullptr) {
    const fs::path to = folder_ / name;
    fs::create_directories(to);
    Task t = by;
    t.save = (to / "model.onnx").string();
    t.config = {"session.optimized_model_external_initializers_file_name=weights.bin",
                "session.save_external_prepacked_constant_initializers=1"};
    const Answer a = ask(t);
    if (answer) *answer = a;
    if (!a.error.empty()) std::printf("     (%s: %s)\n", name.c_str(), a.error.c_str());
    return t.save;
  }

  void make_models() {
    fp32_ = make_chain(folder_ / "fp32", 24, 2048);
    half_ = make_chain(folder_ / "half", 24, 1448);  // the same nodes, half the bytes
    odd_ = make_chain(folder_ / "odd", 2, 257);
    branches_ = make_branches(folder_ / "if");
    fp32_ours_ = saved(ours(fp32_), "fp32_ours");
    half_ours_ = saved(ours(half_), "half_ours");
    if (!peer_.empty()) fp32_peer_ = saved(peer(fp32_), "fp32_peer");
  }

  void packs_at_load() {
    const Answer whole = ask_often(ours(fp32_ours_)), half = ask_often(ours(half_ours_));
    const Answer theirs = peer_.empty() ? Answer{} : ask_often(peer(fp32_peer_), 3);
    const double cpu = 1e3 * whole.first().cpu;
    row("A1", "FP32 with its packs: CPU of opening <= 20", cpu, 1e3 * theirs.first().cpu, cpu <= 20, "ms");
    const double ratio = whole.first().cpu / half.first().cpu;
    row("A1", "  and <= 1.2 x that of half the weights", ratio, NAN, ratio <= 1.2, "x");
    if (large_) {
      const std::string model = saved(ours(make_chain(folder_ / "large", 64, 2048)), "large_ours");
      const double ms = 1e3 * ask_often(ours(model), 9).first().cpu;
      row("A1", "  1 GiB of weights with their packs: <= 20", ms, NAN, ms <= 20, "ms");
    }
    const fs::path folder = fs::path(fp32_ours_).parent_path();
    const double packed = static_cast<double>(fs::file_size(fp32_ours_ + ".pack")) / kMiB;
    const auto cold = [&](Task t, const fs::path& where) {
      forget_cached(where);
      const double before = cached_mib(where);
      ask(t);
      return cached_mib(where) - before;
    };
    Task t = ours(fp32_ours_), p = peer(fp32_peer_);
    const double opened = cold(t, folder);
    const double peer_opened = peer_.empty() ? NAN : cold(p, fs::path(fp32_peer_).parent_path());
    row("A2", "  cold: read by opening <= 2", opened, peer_opened, opened <= 2, "MiB");
    t.run = p.run = true;
    const double ran = cold(t, folder) / packed;
    const double peer_ran = peer_.empty() ? NAN : cold(p, fs::path(fp32_peer_).parent_path()) / packed;
    row("A2", "  cold: read by opening and running <= 1.02 x packed", ran, peer_ran, ran <= 1.02, "x");
    row("A3", "  peak of opening <= 15", whole.first().peak, theirs.first().peak, whole.first().peak <= 15, "MiB");
    row("A3", "  anonymous memory of opening <= 5", whole.first().anonymous, theirs.first().anonymous,
        whole.first().anonymous <= 5, "MiB");
  }

  Answer together(Task t) const {
    t.run = t.second_process = true;
    Process a(t), b(t);
    a.wait_until_ready();
    b.wait_until_ready();
    a.go();
    b.go();
    const Answer out = a.finish();
    b.finish();
    return out;
  }

  void packs_in_memory() {
    const double packed = static_cast<double>(fs::file_size(fp32_ours_ + ".pack")) / kMiB;
    const Answer two = together(ours(fp32_ours_));
    const Answer peer_two = peer_.empty() ? Answer{} : together(peer(fp32_peer_));
    row("A4", "two processes: private dirty memory of each <= 15", two.dirty, peer_two.dirty, two.dirty <= 15, "MiB");
    row("A4", "  shared file memory of each, of the packs (half)", two.shared / packed, peer_two.shared / packed,
        two.shared / packed < 0.62, "x");
    Task t = ours(fp32_ours_), p = peer(fp32_peer_);
    t.sessions = p.sessions = 3;
    t.run = p.run = true;
    const auto growth = [](const Answer& a) {
      return a.sessions.size() < 3 ? NAN : std::max(a.sessions[1].all_run, a.sessions[2].all_run);
    };
    const double more = growth(ask(t)), peer_more = peer_.empty() ? NAN : growth(ask(p));
    row("A5", "three sessions that ran: memory of the 2nd and 3rd <= 3", more, peer_more, more <= 3, "MiB");
    t.weights = p.weights = (folder_ / "fp32/weights.bin").string();
    t.model = p.model = fp32_;
    const double buffered = growth(ask(t)), peer_buffered = peer_.empty() ? NAN : growth(ask(p));
    row("A5", "  the same with weights handed over in memory", buffered, peer_buffered, buffered <= 3, "MiB");
  }

  void odd_and_branches() {
    const auto check = [&](const char* id, const std::string& what, const std::string& model, int columns) {
      Task plain = ours(model), t = ours(saved(ours(model), std::string(id) + "_ours"));
      plain.rows = t.rows = 64;
      plain.columns = t.columns = columns;
      plain.run = t.run = true;
      const Answer want = ask(plain), got = ask(t);
      const bool same = got.error.empty() && got.first().sum == want.first().sum;
      std::string theirs = "-";
      if (!peer_.empty()) {
        Task p = t;
        p.library = peer_;
        p.model = saved(peer(model), std::string(id) + "_peer");
        const Answer a = ask(p);
        theirs = a.error.empty() ? "right" : a.error;
      }
      verdict(id, what, same ? "right" : "wrong " + got.error, theirs, same);
      return t;
    };
    check("A6", "ODD with its packs, 1 to 64 rows", odd_, 257);
    const Task t = check("A9", "IF saved and opened again", branches_, 64);
    if (peer_.empty()) return;
    Task by_peer = t;
    by_peer.library = peer_;
    const Answer mine = ask(t), theirs = ask(by_peer);
    const bool same = theirs.error.empty() && std::fabs(theirs.first().sum / mine.first().sum - 1) < 1e-4;
    verdict("A9", "  saved by us, opened by the peer", same ? "right" : "wrong", theirs.error, same);
  }

  void saving() {
    Answer first;
    saved(ours(fp32_), "again", &first);
    const auto same = [&](const char* name) {
      const Result<std::shared_ptr<Bytes>> a = map_file((folder_ / "again" / name).string()),
                                           b = map_file((folder_ / "fp32_ours" / name).string());
      return a.ok() && b.ok() && (*a)->size() == (*b)->size() &&
             std::memcmp((*a)->data(), (*b)->data(), (*a)->size()) == 0;
    };
    const bool all = same("model.onnx") && same("weights.bin") && same("model.onnx.pack");
    verdict("A10", "saved twice: the same bytes", all ? "yes" : "no", "-", all);
    const double mapped = static_cast<double>(fs::file_size(folder_ / "fp32/weights.bin")) / kMiB;
    Answer theirs;
    if (!peer_.empty()) saved(peer(fp32_), "again_peer", &theirs);
    row("A10", "  peak of saving <= mapped + two tensors", first.first().peak, theirs.first().peak,
        first.first().peak <= mapped + 2 * 16 + 8, "MiB");
    const double padding = static_cast<double>(fs::file_size(fp32_ours_ + ".pack")) / kMiB / mapped;
    row("A10", "  pack file <= 1.01 x packed weights", padding, NAN, padding <= 1.01, "x");
  }

  void buffers() {
    const std::string weights = (folder_ / "fp32/weights.bin").string();
    const std::string no_packing = "session.disable_prepacking=1", borrow = "session.external_initializers_borrow=1";
    Task by_path = ours(fp32_), borrowed = ours(fp32_), p = peer(fp32_);
    by_path.config = p.config = {no_packing};
    borrowed.config = {no_packing, borrow};
    borrowed.weights = p.weights = weights;
    const Answer path = ask_often(by_path), mine = ask_often(borrowed);
    const Answer theirs = peer_.empty() ? Answer{} : ask_often(p, 3);
    const double ratio = mine.first().cpu / path.first().cpu;
    row("B1", "borrowed memory: CPU of opening <= 1.5 x by path", ratio, theirs.first().cpu / path.first().cpu,
        ratio <= 1.5, "x");
    row("B1", "  anonymous memory <= 5", mine.first().anonymous, theirs.first().anonymous, mine.first().anonymous <= 5,
        "MiB");
    Task t = ours(fp32_);
    t.weights = weights;
    p.config.clear();
    t.run = p.run = t.protect = p.protect = true;
    const double mapped = static_cast<double>(fs::file_size(weights)) / kMiB;
    const Answer packed = ask(t), peer_packed = peer_.empty() ? Answer{} : ask(p);
    row("B2", "memory that may be freed: peak <= mapped + packed + a tensor", packed.first().peak,
        peer_packed.first().peak, packed.first().peak <= 2 * mapped + 16 + 8, "MiB");
    Task three = borrowed;
    three.sessions = 3;
    Task peer_three = p;
    peer_three.protect = false;
    peer_three.sessions = 3;
    const auto growth = [](const Answer& a) {
      return a.sessions.size() < 3 ? NAN : std::max(a.sessions[1].anonymous, a.sessions[2].anonymous);
    };
    const double more = growth(ask(three)), peer_more = peer_.empty() ? NAN : growth(ask(peer_three));
    row("B3", "three sessions of borrowed memory: anonymous memory <= 3", more, peer_more, more <= 3, "MiB");
    Task plain = ours(fp32_);
    plain.run = true;
    const bool right = packed.error.empty() && packed.first().sum == ask(plain).first().sum;
    verdict("B4", "memory made unreadable after opening, then run", right ? "right" : "wrong " + packed.error,
            peer_packed.error.empty() ? "right" : peer_packed.error, right);
    const auto many = [&](const std::string& library) {
      double cpu[2] = {1e9, 1e9};
      const std::string models[] = {make_many(folder_ / "many1", 10000), make_many(folder_ / "many2", 20000)};
      for (int i = 0; i < 6; ++i) {
        Task m{.library = library, .model = models[i % 2]};
        m.weights = fs::path(m.model).replace_filename("weights.bin").string();
        cpu[i % 2] = std::min(cpu[i % 2], ask(m).first().cpu);
      }
      return cpu[1] / cpu[0];
    };
    const double linear = many(ours_), peer_linear = peer_.empty() ? NAN : many(peer_);
    row("B6", "20,000 initializers: CPU of opening <= 2.2 x 10,000", linear, peer_linear, linear <= 2.2, "x");
  }

  // One file, written by ours, opened by ours, by the minimal library beside it, and by the peer.
  void opening_ort() {
    if (fp32_.empty()) fp32_ = make_chain(folder_ / "fp32", 24, 2048);
    const fs::path folder = folder_ / "ort";
    fs::create_directories(folder);
    Task save = ours(fp32_);
    save.save = (folder / "model.ort").string();
    const std::string error = ask(save).error;
    if (!error.empty()) return verdict("D4", "FP32 is written as .ort", error, "-", false);
    const Answer theirs = peer_.empty() ? Answer{} : ask_often(peer(save.save), 3);
    const auto read_of = [&](const Task& t) {
      forget_cached(folder);
      const double before = cached_mib(folder);
      ask(t);
      return cached_mib(folder) - before;
    };
    for (const char* name : {"libtessera.so", "libtessera_minimal.so"}) {
      Task t = ours(save.save);
      t.library = (fs::path(ours_).parent_path() / name).string();
      if (!fs::exists(t.library)) continue;
      const Figures f = ask_often(t, 7).first(), p = theirs.first();
      const std::string by = format("FP32 as .ort by {}", std::string(name));
      row("D4", by + ": CPU <= 5", 1e3 * f.cpu, 1e3 * p.cpu, 1e3 * f.cpu <= 5, "ms");
      row("D4", "  anonymous memory <= 3", f.anonymous, p.anonymous, f.anonymous <= 3, "MiB");
      row("D4", "  peak <= 10", f.peak, p.peak, f.peak <= 10, "MiB");
      const double read = read_of(t);
      row("D4", "  cold: read by opening <= 2", read, peer_.empty() ? NAN : read_of(peer(save.save)), read <= 2, "MiB");
    }
  }

  // Operators found by name and kernels by types, for the nodes of a large graph.
  void looking_up() {
    constexpr int kNodes = 100000;
    constexpr std::string_view kNames[] = {"Add",    "MatMul", "Mul",     "Conv",  "Relu",      "Reshape",
                                           "Concat", "Gather", "Softmax", "Slice", "Transpose", "LayerNormalization"};
    const TypeDesc real{Kind::tensor, DType::f32, Kind::tensor}, integer{Kind::tensor, DType::i64, Kind::tensor};
    const TypeDesc in[] = {real, real}, indexed[] = {real, integer}, out[] = {real};
    DType convert[8];
    int found = 0;
    double best = INFINITY;
    for (int repeat = 0; repeat < 7; ++repeat) {
      found = 0;
      best = std::min(best, timed([&] {
                              for (int i = 0; i < kNodes; ++i) {
                                const std::string_view name = kNames[static_cast<size_t>(i) % std::size(kNames)];
                                const Op* op = find_op("", name);
                                const bool second_is_integer = op->shape_inputs || name == "Gather";
                                found += choose_kernel(*op, second_is_integer ? indexed : in, out, convert) != nullptr;
                              }
                            }).cpu);
    }
    row("D4", "kernels for 100,000 nodes: CPU <= 10", 1e3 * best, NAN, found == kNodes && 1e3 * best <= 10, "ms");
  }

  // What tests look at, run as they are: those of `program` with these names.
  void tested(const char* id, const std::string& what, const char* program, const std::string& names) {
    const fs::path path = fs::canonical("/proc/self/exe").parent_path() / program;
    const std::string command = format("'{}' --gtest_filter='{}' 2>&1", path.string(), names);
    FILE* out = fs::exists(path) ? popen(command.c_str(), "r") : nullptr;
    int passed = 0;
    char line[512];
    while (out && std::fgets(line, sizeof line, out)) passed += !std::strncmp(line, "[       OK ]", 12);
    const auto wanted = std::count(names.begin(), names.end(), ':') + 1;
    const bool holds = out && pclose(out) == 0 && passed == wanted;
    verdict(id, what, !out ? "not built" : format("{} of {}", passed, static_cast<int64_t>(wanted)), "-", holds);
  }

  void as_tested() {
    tested("A7", "damage to a pack: found, never used", "packs_test",
           "Packs.EveryDamageIsFoundByVerifying:Packs.ADamagedFileIsNotUsed");
    tested("A7", "  a million damaged files: survived", "store_test", "Store.AnyDamageToAPackFileIsSurvived");
    tested("A8", "packs of one CPU target used on every other", "store_test",
           "Store.PacksAreTheSameForEveryTargetAndRowCount");
    tested("A8", "  packs of other weights: stale, made anew", "packs_test", "Packs.OfOtherWeightsAreStale");
    tested("B5", "files in memory reach every tensor of a model", "store_test",
           "Handed.TablesReachEveryTensor:Handed.TablesReachFunctionsAttributesAndScans:Handed.AFileIsGivenOnce");
    tested("B7", "unaligned and empty ranges", "store_test", "Handed.AnyPlaceWillDo");
    tested("B9", "100,000 wrong ranges and names: refused", "store_test", "Handed.RangesThatAreNotThereAreRefused");
  }

  std::string ours_, peer_;
  fs::path folder_;
  bool large_;
  int passed_ = 0, total_ = 0;
  std::string fp32_, half_, odd_, branches_, fp32_ours_, half_ours_, fp32_peer_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 12 && !std::strcmp(argv[1], "--child")) return Child(Task::from_words(argv, argc)).work();
  CLI::App app{"Weights on disk and in memory: what is promised of them, measured beside a peer"};
  std::string ours = find_ours(), peer = find_peer(), folder;
  bool large = false, only_ort = false;
  app.add_option("--ours", ours, "Our library");
  app.add_option("--peer", peer, "A library with ORT's C ABI; empty: none");
  app.add_option("--folder", folder, "Where models are made (default: a temporary folder, removed afterwards)");
  app.add_flag("--ort", only_ort, "Only what is promised of .ort files and of finding kernels");
  app.add_flag("--large", large, "Also 1 GiB of weights");
  CLI11_PARSE(app, argc, argv);
  const bool temporary = folder.empty();
  if (temporary)
    folder = (fs::temp_directory_path() / format("store_bench_{}", static_cast<int64_t>(getpid()))).string();
  fs::create_directories(folder);
  const int code = Suite(ours, peer, folder, large).run(only_ort);
  if (temporary) fs::remove_all(folder);
  return code;
}
