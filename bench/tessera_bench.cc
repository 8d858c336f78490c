// tessera_bench: our library beside a peer (any library with ORT's C ABI), in one run.
//
// Each library lives in a process of its own and is asked for bursts of runs in turn, so that both see the same
// machine. CPU time and wall time, minimum and median; load, first run, steady run, peak memory. A ratio below 1 means
// we are faster.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "formats/onnx/writer.h"
#include "peer.h"
#include "session/session.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

struct Options {
  std::vector<std::string> models, dims;
  std::string peer, ours;
  std::vector<int> threads{1, 2};
  double seconds = 2;
  int64_t dim = 1;
  bool no_optimisation = false, suite = false;
};

std::string in_units(double seconds) {
  char text[32];
  if (seconds >= 1)
    std::snprintf(text, sizeof text, "%.3f s", seconds);
  else if (seconds >= 1e-3)
    std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.3f us", seconds * 1e6);
  return text;
}

void row(const char* what, double ours, double peer) {
  if (peer > 0)
    std::printf("  %-22s %14s %14s   %.3f\n", what, in_units(ours).c_str(), in_units(peer).c_str(), ours / peer);
  else
    std::printf("  %-22s %14s\n", what, in_units(ours).c_str());
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

int compare(const std::string& model, int threads, const Options& o, bool optimise) {
  Job job;
  job.model = model;
  job.threads = threads;
  job.optimise = optimise;
  job.default_dim = o.dim;
  for (const std::string& d : o.dims) job.add_dim(d);
  std::vector<std::unique_ptr<Worker>> workers;
  for (const std::string& library : {o.ours, o.peer}) {
    if (library.empty()) continue;
    job.library = library;
    workers.push_back(std::make_unique<Worker>(job));
  }
  std::printf("%s, %d thread%s, target %s%s\n", fs::path(model).filename().c_str(), threads, threads == 1 ? "" : "s",
              std::string(target_name(best_target())).c_str(), optimise ? "" : ", rewrites off");
  std::vector<double> load[2], first[2], cpu[2], wall[2];
  double memory[2] = {};
  for (size_t w = 0; w < workers.size(); ++w) load[w] = workers[w]->ask("load");
  for (size_t w = 0; w < workers.size(); ++w) first[w] = workers[w]->ask("first");
  const int bursts = 10;
  for (int b = 0; b < bursts; ++b)
    for (size_t w = 0; w < workers.size(); ++w) {
      const std::vector<double> times = workers[w]->ask("runs " + std::to_string(o.seconds / bursts));
      for (size_t i = 0; i + 1 < times.size(); i += 2) {
        cpu[w].push_back(times[i]);
        wall[w].push_back(times[i + 1]);
      }
    }
  for (size_t w = 0; w < workers.size(); ++w)
    if (const auto m = workers[w]->ask("memory"); !m.empty()) memory[w] = m[0];
  for (size_t w = 0; w < workers.size(); ++w)
    if (!workers[w]->error().empty()) {
      std::printf("  %s: %s\n", w == 0 ? "ours" : "peer", workers[w]->error().c_str());
      if (w == 0) return 1;
      load[1].clear();
    }
  const bool both = workers.size() == 2 && !load[1].empty();
  std::printf("  %-22s %14s %14s   %s\n", "", "ours", both ? "peer" : "", both ? "ours/peer" : "");
  const auto least = [](const std::vector<double>& v) { return v.empty() ? 0 : *std::min_element(v.begin(), v.end()); };
  row("load, cpu", load[0][0], both ? load[1][0] : 0);
  row("first run, cpu", first[0][0], both ? first[1][0] : 0);
  row("run, cpu min", least(cpu[0]), both ? least(cpu[1]) : 0);
  row("run, cpu median", median(cpu[0]), both ? median(cpu[1]) : 0);
  row("run, wall min", least(wall[0]), both ? least(wall[1]) : 0);
  row("run, wall median", median(wall[0]), both ? median(wall[1]) : 0);
  row("load + first, cpu", load[0][0] + first[0][0], both ? load[1][0] + first[1][0] : 0);
  std::printf("  %-22s %10.1f MiB", "anonymous after load", load[0][2] / 1024);
  if (both) std::printf(" %10.1f MiB   %.3f", load[1][2] / 1024, load[0][2] / std::max(1.0, load[1][2]));
  std::printf("\n  %-22s %10.1f MiB", "peak memory", memory[0] / 1024);
  if (both) std::printf(" %10.1f MiB   %.3f", memory[1] / 1024, memory[0] / memory[1]);
  std::printf("\n");
  return 0;
}

// ------------------------------------------------------------------------------------------------ models made on the
// spot

// A chain of one operator over float[16], or over float[T] when `grows`.
Status write_chain(const std::string& path, const char* op, int nodes, bool with_constant, bool grows = false) {
  ir::GraphBuilder g;
  const Dim size = grows ? g.dims().symbol("T") : Dim(16);
  TRY(g.input("x", Fact::tensor(DType::f32, std::vector<Dim>{size})));
  g.output("y", Fact::tensor(DType::f32, std::vector<Dim>{size}));
  if (with_constant) {
    TRY_ASSIGN(c, Tensor::of<float>(Shape{1}, std::vector<float>{0.001f}));
    TRY(g.initializer("c", Weight::from(c)));
  }
  std::string previous = "x";
  for (int i = 0; i < nodes; ++i) {
    ir::Node n;
    n.op_type = op;
    n.name = format("node_{}", i);
    const std::string out = i + 1 == nodes ? "y" : format("v{}", i);
    const std::string_view in[] = {previous, "c"}, outs[] = {out};
    TRY(g.node(std::move(n), {in, with_constant ? 2u : 1u}, outs));
    previous = out;
  }
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.graph = g.finish();
  return onnx::save_model(model, path);
}

// 100 matrices of 4 MiB in a file beside the model.
Status write_external(const fs::path& folder) {
  constexpr int kCount = 100;
  constexpr int64_t kSide = 1024;
  std::vector<float> matrix(kSide * kSide);
  std::ofstream file(folder / "weights.bin", std::ios::binary);
  for (int i = 0; i < kCount; ++i) {  // no two alike: a runtime may share equal weights
    for (size_t k = 0; k < matrix.size(); ++k)
      matrix[k] = static_cast<float>((k + static_cast<size_t>(i)) % 97) * 1e-5f;
    file.write(reinterpret_cast<const char*>(matrix.data()), kSide * kSide * 4);
  }
  file.close();
  if (!file) return error(Code::fail, "cannot write 400 MiB to {}", quote(folder.string()));
  ir::GraphBuilder g;
  TRY(g.input("x", Fact::tensor(DType::f32, std::vector<Dim>{1, kSide})));
  g.output("y", Fact::tensor(DType::f32, std::vector<Dim>{1, kSide}));
  std::string previous = "x";
  for (int i = 0; i < kCount; ++i) {
    Weight w;
    w.dtype = DType::f32;
    w.shape = Shape{kSide, kSide};
    w.location = "weights.bin";
    w.location_offset = static_cast<uint64_t>(i) * kSide * kSide * 4;
    const std::string name = format("w{}", i), out = i + 1 == kCount ? "y" : format("v{}", i);
    TRY(g.initializer(name, std::move(w)));
    ir::Node n;
    n.op_type = "MatMul";
    n.name = format("layer_{}", i);
    const std::string_view in[] = {previous, name}, outs[] = {out};
    TRY(g.node(std::move(n), in, outs));
    previous = out;
  }
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.graph = g.finish();
  return onnx::save_model(model, (folder / "external_400MiB.onnx").string());
}

// What a decode step pays for a cache that is one longer than last time: shapes of every node bound anew.
Status measure_rebinding(const std::string& path, int nodes) {
  SessionOptions options;
  options.threads = 1;
  TRY_ASSIGN(session, Session::open(path, options));
  const auto run = [&](int64_t length) -> Result<double> {
    TRY_ASSIGN(x, Tensor::allocate(DType::f32, Shape{length}));
    std::memset(x.mutable_data(), 0, static_cast<size_t>(x.bytes()));
    const std::vector<Value> in{Value(x)};
    std::vector<Value> out(1);
    Status status;
    const Times t = timed([&] { status = session->run(in, out); });
    if (!status.ok()) return status;
    return t.cpu;
  };
  std::vector<double> same, growing;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 3; ++i) {
      TRY_ASSIGN(t, run(100 + round));
      (i == 0 ? growing : same).push_back(t);
    }
  }
  std::printf(
      "rebinding %d nodes after a growing length: %.1f ns per node (run with the same length %s, one longer %s)\n",
      nodes, (median(growing) - median(same)) / nodes * 1e9, in_units(median(same)).c_str(),
      in_units(median(growing)).c_str());
  return {};
}

// The external-data model once more, its file handed over as a buffer.
Status measure_buffer(const fs::path& folder) {
  TRY_ASSIGN(weights, map_file((folder / "weights.bin").string()));
  TRY_ASSIGN(model, map_file((folder / "external_400MiB.onnx").string()));
  SessionOptions options;
  options.external_files["weights.bin"] = weights;
  const double anonymous = status_kib("RssAnon:");
  Status status;
  int64_t copied = -1;
  const Times t = timed([&] {
    auto session = Session::from_bytes(model, options);
    if (session.ok())
      copied = (*session)->memory().counters.bytes_copied;
    else
      status = session.take_status();
  });
  TRY(std::move(status));
  std::printf("external_400MiB.onnx from a caller's buffer: open %s cpu, %lld bytes copied, %.1f MiB anonymous\n",
              in_units(t.cpu).c_str(), static_cast<long long>(copied), (status_kib("RssAnon:") - anonymous) / 1024);
  return {};
}

// Eight unfused DequantizeLinear + MatMul layers of 64 MiB (as float), their nodes listed at random.
constexpr int kLayers = 8;
constexpr int64_t kLayerSide = 4096;
Status write_listing(const fs::path& folder, unsigned seed) {
  ir::GraphBuilder g;
  TRY(g.input("x0", Fact::tensor(DType::f32, std::vector<Dim>{1, kLayerSide})));
  TRY_ASSIGN(scale, Tensor::scalar(0.01f));
  TRY(g.initializer("scale", Weight::from(scale)));
  struct Line {
    const char* op;
    std::string name, a, b, out;
  };
  std::vector<Line> lines;
  for (int i = 0; i < kLayers; ++i) {
    Weight w;
    w.dtype = DType::i8;
    w.shape = Shape{kLayerSide, kLayerSide};
    w.location = "int8.bin";
    w.location_offset = static_cast<uint64_t>(i * kLayerSide * kLayerSide);
    TRY(g.initializer(format("q{}", i), std::move(w)));
    lines.push_back({"DequantizeLinear", format("dequantize_{}", i), format("q{}", i), "scale", format("w{}", i)});
    lines.push_back({"MatMul", format("product_{}", i), format("x{}", i), format("w{}", i), format("x{}", i + 1)});
  }
  std::shuffle(lines.begin(), lines.end(), std::mt19937(seed));
  for (const Line& l : lines) {
    ir::Node n;
    n.op_type = l.op;
    n.name = l.name;
    const std::string_view in[] = {l.a, l.b}, out[] = {l.out};
    TRY(g.node(std::move(n), in, out));
  }
  g.output(format("x{}", kLayers), Fact::tensor(DType::f32));
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.graph = g.finish();
  // The writer lists nodes in a valid order; the seed decides which one.
  return onnx::save_model(model, (folder / format("listing_{}.onnx", seed)).string());
}

// Peak memory of a run over 20 listings of one graph, ours and the peer's.
Status measure_listings(const fs::path& folder, const Options& o) {
  const std::vector<char> ones(kLayerSide * kLayerSide, 1);
  std::ofstream file(folder / "int8.bin", std::ios::binary);
  for (int i = 0; i < kLayers; ++i) file.write(ones.data(), static_cast<std::streamsize>(ones.size()));
  file.close();
  double least[2] = {1e18, 1e18}, most[2] = {};
  for (unsigned seed = 0; seed < 20; ++seed) {
    TRY(write_listing(folder, seed));
    for (int side = 0; side < (o.peer.empty() ? 1 : 2); ++side) {
      Job job;
      job.library = side == 0 ? o.ours : o.peer;
      job.model = (folder / format("listing_{}.onnx", seed)).string();
      job.optimise = false;
      Worker worker(job);
      worker.ask("load");
      worker.ask("first");
      const auto peak = worker.ask("memory");
      if (peak.empty()) return error(Code::fail, "{}", worker.error());
      least[side] = std::min(least[side], peak[0] / 1024);
      most[side] = std::max(most[side], peak[0] / 1024);
    }
  }
  std::printf("peak memory over 20 listings of %d unfused int8 layers (weights %d MiB, 64 MiB each as float):\n",
              kLayers, kLayers * 16);
  std::printf("  ours %.1f to %.1f MiB", least[0], most[0]);
  if (!o.peer.empty()) std::printf(", peer %.1f to %.1f MiB", least[1], most[1]);
  std::printf("\n");
  return {};
}

int run_suite(const Options& o) {
  const fs::path folder = fs::temp_directory_path() / format("tessera_bench_{}", static_cast<int64_t>(getpid()));
  fs::create_directories(folder);
  int worst = 0;
  const auto need = [&](const Status& s) {
    if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str()), worst = 1;
  };
  need(write_chain((folder / "chain_1000_add.onnx").string(), "Add", 1000, true));
  need(write_chain((folder / "chain_100000_relu.onnx").string(), "Relu", 100000, false));
  need(write_chain((folder / "chain_200000_relu.onnx").string(), "Relu", 200000, false));
  need(write_external(folder));
  need(write_chain((folder / "chain_1000_growing.onnx").string(), "Add", 1000, true, true));
  need(measure_rebinding((folder / "chain_1000_growing.onnx").string(), 1000));
  for (const char* name :
       {"chain_1000_add.onnx", "chain_100000_relu.onnx", "chain_200000_relu.onnx", "external_400MiB.onnx"})
    worst = std::max(worst, compare((folder / name).string(), 1, o, false));
  need(measure_buffer(folder));
  need(measure_listings(folder, o));
  fs::remove_all(folder);
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (int status; is_worker(argc, argv, &status)) return status;
  CLI::App app{"Measure models with Tessera and a peer library, interleaved in one run"};
  app.footer(
      "Examples:\n  tessera_bench --suite\n  tessera_bench tests/models/demo/digits.onnx --threads 1,2\n"
      "  tessera_bench model.onnx --peer /path/to/libonnxruntime.so --dim batch=8 --seconds 5\n");
  Options o;
  o.ours = find_ours();
  app.add_option("models", o.models, ".onnx files");
  app.add_option("--peer", o.peer, "Library with ORT's C ABI (default: the onnxruntime wheel in build/venv)");
  app.add_option("--ours", o.ours, "Our library");
  app.add_option("--threads", o.threads, "Thread counts")->delimiter(',');
  app.add_option("--seconds", o.seconds, "Seconds of runs per library and thread count");
  app.add_option("--dim", o.dims, "Size of a named dimension: batch=4");
  app.add_option("--default-dim", o.dim, "Size of the other symbolic dimensions");
  app.add_flag("--no-rewrites", o.no_optimisation, "Turn graph rewrites off on both sides");
  app.add_flag("--suite", o.suite, "Chains of small nodes and a 400 MiB external-data model, made on the spot");
  CLI11_PARSE(app, argc, argv);
  if (o.peer.empty()) o.peer = find_peer();
  if (o.peer.empty()) std::printf("no peer library found; run ./dev setup or give --peer\n");
  if (!o.suite && o.models.empty()) o.models.push_back("tests/models/demo/digits.onnx");
  int worst = o.suite ? run_suite(o) : 0;
  for (const std::string& model : o.models)
    for (const int t : o.threads) worst = std::max(worst, compare(model, t, o, !o.no_optimisation));
  return worst;
}
