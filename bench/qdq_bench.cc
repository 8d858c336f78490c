// qdq_bench: what is promised of quantised weights, our library beside a peer with ORT's C ABI, criterion by criterion.
//
// Every figure of time or memory comes from a fresh process that opens one model and runs it once: some libraries pack
// weights when a model is opened, others when it is first run. QDQ is 32 products with 4096 x 4096 weights of 4 bits in
// blocks of 32, dequantised by DequantizeLinear; QOP is the same with MatMulNBits; both read one file of 320 MiB.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <thread>

#include "base/file.h"
#include "base/format.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "peer.h"
#include "session/save.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

constexpr double kMiB = 1 << 20;
constexpr int kLayers = 32;
constexpr int64_t kSize = 4096, kCodeBytes = kSize * kSize / 2, kScaleBytes = kSize * kSize / 32 * 4;

// --- a process that opens a model and runs it
// ---------------------------------------------------------------------------

struct Task {
  std::string library, model;
  int threads = 1;
  bool run = true;
  std::string cancel = {};  // "run": stopped soon after it began
};

struct Figures {
  double open_cpu = NAN, run_cpu = NAN, wall = NAN, peak = NAN, late = NAN, sum = NAN;
  std::string error;
  double cpu() const { return open_cpu + run_cpu; }
};

class Child {
 public:
  // One line: CPU s of opening and of the first run, wall s of both, MiB of peak above the start, CPU s from the wish
  // to stop to the end, and the sum of the outputs.
  static int work(const Task& t) {
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    Child c;
    void* handle = dlopen(t.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail(dlerror());
    c.api_ = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"))()->GetApi(18);
    OrtEnv* env = nullptr;
    OrtSessionOptions* options = nullptr;
    OrtSession* session = nullptr;
    c.check(c.api_->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "qdq", &env));
    c.check(c.api_->CreateSessionOptions(&options));
    c.check(c.api_->SetIntraOpNumThreads(options, t.threads));
    std::ofstream("/proc/self/clear_refs") << "5";
    const double before = status_kib("VmRSS:");
    const Times opened = timed([&] { c.check(c.api_->CreateSession(env, t.model.c_str(), options, &session)); });
    double sum = 0, late = NAN;
    Times ran;
    if (t.cancel == "run")
      late = c.stop_early(session);
    else if (t.run)
      ran = timed([&] { sum = c.run(session, nullptr); });
    std::printf("%.6f %.6f %.6f %.3f %.6f %.9g\n", opened.cpu, ran.cpu, opened.wall + ran.wall,
                (status_kib("VmHWM:") - before) / 1024, late, sum);
    std::fflush(stdout);
    _exit(0);
  }

 private:
  [[noreturn]] static void fail(const char* why) {
    std::printf("error %s\n", why);
    std::fflush(stdout);
    _exit(1);
  }
  void check(OrtStatus* s) const {
    if (s) fail(api_->GetErrorMessage(s));
  }
  // The sum of the absolute outputs for one row; NaN if it was stopped.
  double run(OrtSession* session, OrtRunOptions* options) const {
    OrtMemoryInfo* info = nullptr;
    OrtTypeInfo* type = nullptr;
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    int64_t shape[2] = {};
    check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
    check(api_->SessionGetInputTypeInfo(session, 0, &type));
    check(api_->CastTypeInfoToTensorInfo(type, &tensor));
    check(api_->GetDimensions(tensor, shape, 2));
    shape[0] = 1;
    std::vector<float> x(static_cast<size_t>(shape[1]));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 8 - 1;
    OrtValue *in = nullptr, *out = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(info, x.data(), x.size() * 4, shape, 2,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in));
    const char *in_name = "x", *out_name = "y";
    const OrtValue* ins[] = {in};
    OrtStatus* s = api_->Run(session, options, &in_name, ins, 1, &out_name, 1, &out);
    if (options) return NAN;
    check(s);
    float* y = nullptr;
    OrtTensorTypeAndShapeInfo* got = nullptr;
    size_t count = 0;
    check(api_->GetTensorMutableData(out, reinterpret_cast<void**>(&y)));
    check(api_->GetTensorTypeAndShape(out, &got));
    check(api_->GetTensorShapeElementCount(got, &count));
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += std::fabs(static_cast<double>(y[i]));
    return sum;
  }
  // CPU s from the wish to stop to the end of the first run.
  double stop_early(OrtSession* session) const {
    OrtRunOptions* options = nullptr;
    check(api_->CreateRunOptions(&options));
    std::atomic<double> asked = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      asked = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
      check(api_->RunOptionsSetTerminate(options));
    });
    run(session, options);
    const double end = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    other.join();
    return std::max(0.0, end - asked);
  }

  const OrtApi* api_ = nullptr;
};

Figures ask(const Task& t) {
  int from[2];
  if (pipe2(from, O_CLOEXEC)) std::exit(2);
  std::string words[] = {"qdq_child",       "--child", t.library, t.model, std::to_string(t.threads),
                         t.run ? "1" : "0", t.cancel};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(from[1], 1);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(from[1]);
  FILE* out = fdopen(from[0], "r");
  Figures f;
  char line[512] = "";
  if (!std::fgets(line, sizeof line, out)) f.error = "the process ended";
  if (!std::strncmp(line, "error ", 6)) f.error = std::string(line + 6, std::strcspn(line + 6, "\n"));
  std::sscanf(line, "%lf %lf %lf %lf %lf %lf", &f.open_cpu, &f.run_cpu, &f.wall, &f.peak, &f.late, &f.sum);
  std::fclose(out);
  waitpid(pid, nullptr, 0);
  return f;
}

// The least times of several processes.
Figures ask_often(const Task& t, int times) {
  Figures best = ask(t);
  for (int i = 1; i < times && best.error.empty(); ++i) {
    const Figures f = ask(t);
    if (f.cpu() < best.cpu()) best.open_cpu = f.open_cpu, best.run_cpu = f.run_cpu;
    best.wall = std::min(best.wall, f.wall);
    best.peak = std::min(best.peak, f.peak);
  }
  return best;
}

// --- models
// -----------------------------------------------------------------------------------------------------------

void must(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "qdq_bench: %s\n", s.message().c_str());
  std::exit(2);
}

void write_text(const fs::path& path, const std::string& text) {
  Result<Model> model = parse_text(text);
  if (!model.ok()) must(model.take_status());
  must(onnx::save_model(*model, path.string()));
}

// Codes and scales of all layers, one after the other.
void write_weights(const fs::path& path) {
  std::vector<uint32_t> codes(kCodeBytes / 4);
  uint32_t state = 1;
  for (uint32_t& c : codes) {
    state = state * 1664525 + 1013904223;
    c = state ^ state >> 13;
  }
  std::vector<float> scales(kScaleBytes / 4);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.003f + 0.0001f * static_cast<float>(i % 5);
  Result<std::unique_ptr<AtomicFile>> file = AtomicFile::create(path.string());
  if (!file.ok()) must(file.take_status());
  for (int i = 0; i < kLayers; ++i) {
    codes[0] = static_cast<uint32_t>(i);
    must((*file)->write(codes.data(), kCodeBytes));
    must((*file)->write(scales.data(), kScaleBytes));
  }
  must((*file)->finish());
}

std::string external(int64_t offset, int64_t length) {
  return format("[\"location\": \"weights.bin\", \"offset\": \"{}\", \"length\": \"{}\"]", offset, length);
}

std::string make_chain(const fs::path& folder, bool qdq) {
  std::string weights, nodes;
  for (int i = 0; i < kLayers; ++i) {
    const int64_t at = i * (kCodeBytes + kScaleBytes);
    weights +=
        format("{}{} w{} = {}, float[{}] s{} = {}", i ? ", " : "", qdq ? "int4[4096,4096]" : "uint8[4096,128,16]", i,
               external(at, kCodeBytes), qdq ? "128,4096" : "524288", i, external(at + kCodeBytes, kScaleBytes));
    const std::string in = i ? format("h{}", i) : "x", out = i + 1 < kLayers ? format("h{}", i + 1) : "y";
    nodes += qdq ? format("d{} = DequantizeLinear <axis = 0, block_size = 32> (w{}, s{})\n{} = MatMul ({}, d{})\n", i,
                          i, i, out, in, i)
                 : format(
                       "{} = com.microsoft.MatMulNBits <K = 4096, N = 4096, bits = 4, block_size = 32, "
                       "accuracy_level = 4> ({}, w{}, s{})\n",
                       out, in, i, i);
  }
  const std::string path = (folder / (qdq ? "qdq.onnx" : "qop.onnx")).string();
  write_text(path,
             "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> "
             "net (float[M,4096] x) => (float[M,4096] y) <" +
                 weights + "> {" + nodes + "}");
  return path;
}

// More than 2^31 elements of zeros in a file without blocks.
std::string make_large(const fs::path& folder) {
  constexpr int64_t kK = 32768, kN = 65600;
  fs::create_directories(folder);
  std::ofstream(folder / "weights.bin");
  fs::resize_file(folder / "weights.bin", kK * kN / 4 + kN * 4);
  const std::string path = (folder / "large.onnx").string();
  write_text(path, format("<ir_version: 12, opset_import: [\"\" : 25]> net (float[M,{}] x) => (float[M,{}] y) "
                          "<uint2[{},{}] w = {}, float[{}] s = {}> ",
                          kK, kN, kK, kN, external(0, kK * kN / 4), kN, external(kK * kN / 4, kN * 4)) +
                       "{ d = DequantizeLinear <axis = 1> (w, s)\n y = MatMul (x, d) }");
  return path;
}

// --- criteria
// ---------------------------------------------------------------------------------------------------------

class Suite {
 public:
  Suite(std::string ours, std::string peer, fs::path folder)
      : ours_(std::move(ours)), peer_(std::move(peer)), folder_(std::move(folder)) {}

  int run() {
    std::printf("%-4s %-62s %12s %12s\n", "", "criterion", "ours", "peer");
    write_weights(folder_ / "weights.bin");
    qdq_ = make_chain(folder_, true);
    qop_ = make_chain(folder_, false);
    memory_and_time();
    bytes_moved();
    stopped();
    large();
    with_packs();
    std::printf("%d of %d hold\n", passed_, total_);
    return passed_ == total_ ? 0 : 1;
  }

 private:
  void row(const char* id, const char* what, double ours, double peer, bool holds, const char* unit) {
    ++total_;
    passed_ += holds;
    const auto text = [&](double v) {
      char t[32];
      std::snprintf(t, sizeof t, "%.2f %s", v, unit);
      return std::isnan(v) ? std::string("-") : std::string(t);
    };
    std::printf("%-4s %-62s %12s %12s   %s\n", id, what, text(ours).c_str(), text(peer).c_str(),
                holds ? "pass" : "FAIL");
    std::fflush(stdout);
  }
  Figures peer(const std::string& model) {
    if (peer_.empty()) return {};
    Figures f = ask_often({peer_, model}, 2);
    if (!f.error.empty()) std::printf("     (peer: %s)\n", f.error.c_str());
    return f;
  }

  void memory_and_time() {
    const Figures qdq = ask_often({ours_, qdq_}, 3), qop = ask_often({ours_, qop_}, 3);
    const Figures theirs = peer(qdq_), theirs_qop = peer(qop_);
    for (const Figures& f : {qdq, qop})
      if (!f.error.empty()) std::printf("     (ours: %s)\n", f.error.c_str());
    const double bytes = kLayers * (kCodeBytes + kScaleBytes) / kMiB;
    row("C1", "QDQ: peak above that of QOP <= 10", qdq.peak - qop.peak, theirs.peak - theirs_qop.peak,
        qdq.peak <= qop.peak + 10, "MiB");
    row("C1", "  peak <= mapped + packed + 20", qdq.peak, theirs.peak, qdq.peak <= 2 * bytes + 20, "MiB");
    row("C2", "QDQ: CPU of opening and first run, of QOP <= 1.15", qdq.cpu() / qop.cpu(),
        theirs.cpu() / theirs_qop.cpu(), qdq.cpu() <= 1.15 * qop.cpu(), "x");
    row("C2", "  CPU of opening and first run <= 0.35 x the peer's opening alone", 1e3 * qdq.cpu(),
        1e3 * theirs.open_cpu, peer_.empty() || qdq.cpu() <= 0.35 * theirs.open_cpu, "ms");
    const Figures two = ask_often({ours_, qdq_, 2}, 3);
    row("C2", "  two threads on an idle machine: wall >= 1.7 x faster", qdq.wall / two.wall, NAN,
        qdq.wall >= 1.7 * two.wall, "x");
  }

  // In this process: counters are not part of the C ABI.
  void bytes_moved() {
    SessionOptions options;
    options.pack_file = "off";
    for (const std::string& model : {qdq_, qop_}) {
      auto session = Session::open(model, options);
      if (!session.ok()) must(session.take_status());
      const std::vector<float> x(kSize, 0.5f);
      const std::vector<Value> in = {*Tensor::of<float>(Shape{1, kSize}, x)};
      std::vector<Value> out(1);
      must((*session)->run(in, out));
      const Counters c = (*session)->memory().counters;
      const auto bytes = kLayers * (kCodeBytes + kScaleBytes);
      const char* copied = model == qdq_ ? "QDQ: bytes copied = 0" : "QOP: bytes copied = 0";
      row("C3", copied, static_cast<double>(c.bytes_copied), NAN, c.bytes_copied == 0, "B");
      row("C3", "  bytes packed, of the source's = 1",
          static_cast<double>(c.bytes_packed_in) / static_cast<double>(bytes), NAN, c.bytes_packed_in == bytes, "x");
      must(save_packs(**session, model + ".pack").take_status());
    }
  }

  void stopped() {
    fs::rename(qdq_ + ".pack", qdq_ + ".later");
    const Figures whole = ask({ours_, qdq_}), f = ask({ours_, qdq_, 1, true, "run"});
    fs::rename(qdq_ + ".later", qdq_ + ".pack");
    const double tensor = whole.run_cpu / kLayers;
    row("C7", "stopped while weights are packed: CPU until it ends, in tensors <= 2", f.late / tensor, NAN,
        f.late <= 2 * tensor, "");
  }

  void large() {
    const std::string model = make_large(folder_ / "large");
    const Figures f = ask({ours_, model});
    if (!f.error.empty()) std::printf("     (ours: %s)\n", f.error.c_str());
    row("C6", "more than 2^31 elements: opened and run (sum of outputs = 0)", f.sum, NAN, f.error.empty() && f.sum == 0,
        "");
  }

  void with_packs() {
    for (const bool qdq : {true, false}) {
      const Figures f = ask_often({ours_, qdq ? qdq_ : qop_, 1, false}, 3);
      row("C4", qdq ? "QDQ with its packs: CPU of opening <= 20" : "QOP with its packs: CPU of opening <= 20",
          1e3 * f.open_cpu, NAN, 1e3 * f.open_cpu <= 20, "ms");
    }
  }

  std::string ours_, peer_;
  fs::path folder_;
  int passed_ = 0, total_ = 0;
  std::string qdq_, qop_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7 && !std::strcmp(argv[1], "--child"))
    return Child::work({argv[2], argv[3], std::atoi(argv[4]), argv[5][0] == '1', argv[6]});
  CLI::App app{"Quantised weights: what is promised of them, measured beside a peer"};
  std::string ours = find_ours(), peer = find_peer(), folder;
  app.add_option("--ours", ours, "Our library");
  app.add_option("--peer", peer, "A library with ORT's C ABI; empty: none");
  app.add_option("--folder", folder, "Where models are made (default: a temporary folder, removed afterwards)");
  CLI11_PARSE(app, argc, argv);
  const bool temporary = folder.empty();
  if (temporary) folder = (fs::temp_directory_path() / format("qdq_bench_{}", static_cast<int64_t>(getpid()))).string();
  fs::create_directories(folder);
  const int code = Suite(ours, peer, folder).run();
  if (temporary) fs::remove_all(folder);
  return code;
}
