// ops_bench: single operators with constant weights, ours beside a peer library, in one run.
//
// Per case a model of one node is written; both libraries run it in bursts in turn. The least CPU time (with several
// threads, wall time) of a burst counts. The share of the limit is that of the multiply-add probe, or for products of a
// few rows that of reading the weights, measured beside each burst: the median of all. With --scaling, each library
// runs with one thread and with several in turn, and what counts is how much faster (in wall time) the several are.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "peer.h"
#include "probe.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

struct Case {
  std::string group, name, op;
  std::vector<int64_t> x, w, y;
  DType x_type = DType::f32, w_type = DType::f32, y_type = DType::f32;
  std::vector<ir::Attribute> attributes = {};
  double operations = 0;   // multiply-adds, twice
  int64_t read_bytes = 0;  // of weights, if reading them may be the limit
  std::string domain = {};
  int64_t scales = 0;       // a third input of that many
  bool seven_bits = false;  // signed weights of -64 to 63
  bool quantized = false;   // x, w and y each come with a scale and a zero point
};

std::string joined(std::initializer_list<int64_t> sizes) {
  std::string out;
  for (const int64_t s : sizes) out += (out.empty() ? "" : "x") + std::to_string(s);
  return out;
}

double product_of(const std::vector<int64_t>& sizes) {
  double p = 1;
  for (const int64_t s : sizes) p *= static_cast<double>(s);
  return p;
}

// Products of m x k and k x n.
void add_products(std::vector<Case>& out) {
  constexpr int64_t kSizes[][3] = {
      {1, 768, 768},   {1, 768, 3072},  {1, 4096, 4096},  {2, 768, 768},   {4, 768, 768},      {8, 768, 3072},
      {15, 768, 768},  {16, 768, 768},  {64, 64, 64},     {128, 768, 768}, {128, 3072, 768},   {128, 768, 3072},
      {512, 512, 512}, {49, 512, 4608}, {197, 1000, 768}, {3136, 64, 576}, {1024, 1024, 1024}, {2048, 2048, 2048}};
  for (const auto& [m, n, k] : kSizes) {
    Case c{"matmul", "MatMul " + joined({m, n, k}), "MatMul", {m, k}, {k, n}, {m, n}};
    c.operations = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
    if (m < 16) c.read_bytes = 4 * n * k;
    out.push_back(c);
    if (m > 1 && m < 1024) {
      c.group = "gemm";
      c.name = "Gemm transB " + joined({m, n, k});
      c.op = "Gemm";
      c.w = {n, k};
      c.attributes = {ir::Attribute::integer("transB", 1)};
      out.push_back(c);
    }
  }
  for (const auto& [m, n, k] : kSizes) {
    if (m > 1024 || n > 3072) continue;
    for (const DType w_type : {DType::i8, DType::u8}) {
      Case c{"int8",          "MatMulInteger u8" + std::string(w_type == DType::i8 ? "s8 " : "u8 ") + joined({m, n, k}),
             "MatMulInteger", {m, k},
             {k, n},          {m, n},
             DType::u8,       w_type,
             DType::i32};
      c.operations = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
      out.push_back(c);
      if (w_type != DType::i8) continue;
      c.group = "int7";
      c.name = "MatMulInteger u8s7 " + joined({m, n, k});
      c.seven_bits = true;
      out.push_back(c);
    }
  }
}

// Products with weights of 4 bits in blocks.
void add_block_products(std::vector<Case>& out) {
  for (const int64_t level : {4, 0})
    for (const int64_t m : {1, 16, 128})
      for (const int64_t block : {32, 128}) {
        constexpr int64_t kN = 4096, kK = 4096;
        Case c{"nbits",
               "MatMulNBits level " + std::to_string(level) + " block " + std::to_string(block) + " " +
                   joined({m, kN, kK}),
               "MatMulNBits",
               {m, kK},
               {kN, kK / block, block / 2},
               {m, kN},
               DType::f32,
               DType::u8};
        c.domain = "com.microsoft";
        c.scales = kN * kK / block;
        c.attributes = {ir::Attribute::integer("K", kK), ir::Attribute::integer("N", kN),
                        ir::Attribute::integer("bits", 4), ir::Attribute::integer("block_size", block),
                        ir::Attribute::integer("accuracy_level", level)};
        c.operations = 2.0 * static_cast<double>(m * kN) * static_cast<double>(kK);
        if (m == 1) c.read_bytes = kN * kK / 2 + 4 * c.scales;
        out.push_back(c);
      }
}

// The case in F16.
Case in_half(Case c, const char* group) {
  c.group = group;
  c.name += " f16";
  c.x_type = c.w_type = c.y_type = DType::f16;
  c.read_bytes /= 2;
  return c;
}

void add_halves(std::vector<Case>& out) {
  const size_t n = out.size();
  for (size_t i = 0; i < n; ++i) {
    if (out[i].group == "matmul" || out[i].group == "gemm") out.push_back(in_half(out[i], "half_matmul"));
    if (out[i].group == "resnet50" || out[i].group == "mobilenet_dw") out.push_back(in_half(out[i], "half_conv"));
  }
}

struct Layer {
  int64_t channels, out_channels, groups, size, kernel, stride, batch = 1;
};

void add_layers(std::vector<Case>& out, const char* network, std::span<const Layer> layers) {
  for (const Layer& l : layers) {
    const bool depthwise = l.groups > 1 && l.groups == l.channels;
    const int64_t pad = l.kernel / 2, side = (l.size + 2 * pad - l.kernel) / l.stride + 1;
    Case c;
    c.group = depthwise ? std::string(network) + "_dw" : network;
    c.name = std::string(depthwise ? "dw" : "") + joined({l.kernel, l.kernel}) +
             (l.stride > 1 ? "s" + std::to_string(l.stride) : "") + " " + std::to_string(l.channels) + "-" +
             std::to_string(l.out_channels) + " @" + std::to_string(l.size) +
             (l.batch > 1 ? " batch " + std::to_string(l.batch) : "");
    c.op = "Conv";
    c.x = {l.batch, l.channels, l.size, l.size};
    c.w = {l.out_channels, l.channels / l.groups, l.kernel, l.kernel};
    c.y = {l.batch, l.out_channels, side, side};
    c.attributes = {ir::Attribute::integers("pads", {pad, pad, pad, pad}),
                    ir::Attribute::integers("strides", {l.stride, l.stride}),
                    ir::Attribute::integer("group", l.groups)};
    c.operations = 2 * product_of(c.w) * static_cast<double>(l.batch * side * side);
    out.push_back(c);
    if (network == std::string("other")) continue;
    c.x_type = DType::u8;
    if (network == std::string("resnet50") && l.kernel <= 3) {
      Case sums = c;
      sums.group = "conv_int8";
      sums.op = "ConvInteger";
      sums.name = "ConvInteger " + c.name;
      sums.w_type = DType::u8;
      sums.y_type = DType::i32;
      out.push_back(sums);
    }
    c.group = depthwise ? "qlinear_dw" : "qlinear";
    c.op = "QLinearConv";
    c.name = "QLinearConv " + c.name;
    c.w_type = DType::i8;
    c.y_type = DType::u8;
    c.quantized = true;
    out.push_back(c);
  }
}

void add_convolutions(std::vector<Case>& out) {
  constexpr Layer kResNet[] = {
      {3, 64, 1, 224, 7, 2},   {64, 64, 1, 56, 1, 1},    {64, 64, 1, 56, 3, 1},    {64, 256, 1, 56, 1, 1},
      {256, 64, 1, 56, 1, 1},  {256, 128, 1, 56, 1, 1},  {128, 128, 1, 56, 3, 2},  {256, 512, 1, 56, 1, 2},
      {128, 512, 1, 28, 1, 1}, {512, 128, 1, 28, 1, 1},  {128, 128, 1, 28, 3, 1},  {512, 256, 1, 28, 1, 1},
      {256, 256, 1, 28, 3, 2}, {512, 1024, 1, 28, 1, 2}, {256, 1024, 1, 14, 1, 1}, {1024, 256, 1, 14, 1, 1},
      {256, 256, 1, 14, 3, 1}, {1024, 512, 1, 14, 1, 1}, {512, 512, 1, 14, 3, 2},  {1024, 2048, 1, 14, 1, 2},
      {512, 2048, 1, 7, 1, 1}, {2048, 512, 1, 7, 1, 1},  {512, 512, 1, 7, 3, 1}};
  constexpr Layer kMobileNet[] = {
      {3, 16, 1, 224, 3, 2},     {16, 16, 16, 112, 3, 1},   {16, 16, 1, 112, 1, 1},    {16, 64, 1, 112, 1, 1},
      {64, 64, 64, 112, 3, 2},   {64, 24, 1, 56, 1, 1},     {24, 72, 1, 56, 1, 1},     {72, 72, 72, 56, 3, 1},
      {72, 24, 1, 56, 1, 1},     {72, 72, 72, 56, 5, 2},    {72, 40, 1, 28, 1, 1},     {40, 120, 1, 28, 1, 1},
      {120, 120, 120, 28, 5, 1}, {120, 40, 1, 28, 1, 1},    {40, 240, 1, 28, 1, 1},    {240, 240, 240, 28, 3, 2},
      {240, 80, 1, 14, 1, 1},    {80, 200, 1, 14, 1, 1},    {200, 200, 200, 14, 3, 1}, {200, 80, 1, 14, 1, 1},
      {80, 480, 1, 14, 1, 1},    {480, 480, 480, 14, 3, 1}, {480, 112, 1, 14, 1, 1},   {112, 672, 1, 14, 1, 1},
      {672, 672, 672, 14, 5, 2}, {672, 160, 1, 7, 1, 1},    {160, 960, 1, 7, 1, 1},    {960, 960, 960, 7, 5, 1},
      {960, 160, 1, 7, 1, 1},    {960, 240, 1, 1, 1, 1},    {240, 960, 1, 1, 1, 1}};
  constexpr Layer kOther[] = {{1, 8, 1, 28, 5, 1},      {8, 16, 1, 14, 5, 1},     {32, 64, 1, 24, 3, 1},
                              {128, 128, 32, 28, 3, 1}, {256, 256, 32, 14, 3, 1}, {20, 50, 1, 12, 5, 1}};
  // Depthwise layers on maps of a few pixels.
  constexpr Layer kSmall[] = {{960, 960, 960, 7, 3, 1, 10}, {960, 960, 960, 4, 3, 1, 10},
                              {960, 960, 960, 3, 3, 1, 10}, {960, 960, 960, 7, 5, 2, 10},
                              {576, 576, 576, 8, 3, 2, 10}, {384, 384, 384, 10, 3, 1, 10}};
  add_layers(out, "resnet50", kResNet);
  add_layers(out, "mobilenet", kMobileNet);
  add_layers(out, "other", kOther);
  add_layers(out, "small", kSmall);
}

// Pools of a map, which have no weights; the operation is one per tap.
void add_pools(std::vector<Case>& out) {
  struct Window {
    const char* op;
    int64_t channels, size, kernel, stride, pad;
  };
  constexpr Window kWindows[] = {{"MaxPool", 64, 112, 3, 2, 1},     {"MaxPool", 64, 56, 2, 2, 0},
                                 {"MaxPool", 8, 28, 2, 2, 0},       {"MaxPool", 16, 14, 3, 3, 0},
                                 {"MaxPool", 192, 28, 3, 1, 1},     {"AveragePool", 192, 28, 3, 1, 1},
                                 {"AveragePool", 128, 56, 2, 2, 0}, {"GlobalAveragePool", 2048, 7, 7, 1, 0}};
  for (const Window& w : kWindows) {
    const int64_t side = (w.size + 2 * w.pad - w.kernel) / w.stride + 1;
    Case c;
    c.group = "pool";
    c.op = w.op;
    c.name = c.op + " " + joined({w.kernel, w.kernel}) + "s" + std::to_string(w.stride) + " " +
             std::to_string(w.channels) + " @" + std::to_string(w.size);
    c.x = {1, w.channels, w.size, w.size};
    c.y = {1, w.channels, side, side};
    if (c.op != "GlobalAveragePool")
      c.attributes = {ir::Attribute::integers("kernel_shape", {w.kernel, w.kernel}),
                      ir::Attribute::integers("pads", {w.pad, w.pad, w.pad, w.pad}),
                      ir::Attribute::integers("strides", {w.stride, w.stride})};
    c.operations = static_cast<double>(w.channels * side * side * w.kernel * w.kernel);
    out.push_back(c);
  }
}

Result<Tensor> weights_of(const Case& c) {
  TRY_ASSIGN(t, Tensor::allocate(c.w_type, Shape(c.w)));
  uint32_t state = 12345;
  for (int64_t i = 0; i < t.shape().count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float real = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    if (c.w_type == DType::f32)
      static_cast<float*>(t.mutable_data())[i] = real;
    else if (c.w_type == DType::f16)
      static_cast<uint16_t*>(t.mutable_data())[i] = float_to_f16(real);
    else
      static_cast<uint8_t*>(t.mutable_data())[i] =
          static_cast<uint8_t>((state >> (c.seven_bits ? 25 : 24)) - (c.seven_bits ? 64 : 0));
  }
  return t;
}

// The scale and the zero point of a tensor, which follow it among the inputs.
Status add_scale(ir::GraphBuilder& g, std::vector<std::string_view>& in, std::string_view scale, std::string_view zero,
                 float factor, DType type) {
  TRY_ASSIGN(factors, Tensor::scalar<float>(factor));
  TRY_ASSIGN(zeros, type == DType::i8 ? Tensor::scalar<int8_t>(0) : Tensor::scalar<uint8_t>(128));
  TRY(g.initializer(std::string(scale), Weight::from(factors)));
  TRY(g.initializer(std::string(zero), Weight::from(zeros)));
  in.push_back(scale);
  in.push_back(zero);
  return {};
}

Status write(const Case& c, const std::string& path) {
  ir::GraphBuilder g;
  const auto dims = [](const std::vector<int64_t>& sizes) { return std::vector<Dim>(sizes.begin(), sizes.end()); };
  TRY(g.input("x", Fact::tensor(c.x_type, dims(c.x))));
  g.output("y", Fact::tensor(c.y_type, dims(c.y)));
  std::vector<std::string_view> in = {"x"};
  if (c.quantized) TRY(add_scale(g, in, "x_scale", "x_zero", 0.02f, c.x_type));
  if (!c.w.empty()) {
    TRY_ASSIGN(w, weights_of(c));
    TRY(g.initializer("w", Weight::from(w)));
    in.push_back("w");
  }
  if (c.quantized) {
    TRY(add_scale(g, in, "w_scale", "w_zero", 0.01f, c.w_type));
    TRY(add_scale(g, in, "y_scale", "y_zero", 0.4f, c.y_type));
  }
  ir::Node n;
  n.op_type = c.op;
  n.domain = c.domain;
  n.name = "node";
  n.attributes = c.attributes;
  const std::string_view out[] = {"y"};
  if (c.scales) {
    TRY_ASSIGN(scales, Tensor::allocate(DType::f32, Shape{c.scales}));
    for (int64_t i = 0; i < c.scales; ++i)
      static_cast<float*>(scales.mutable_data())[i] = 0.01f * static_cast<float>(1 + i % 7);
    TRY(g.initializer("scales", Weight::from(scales)));
    in.push_back("scales");
  }
  TRY(g.node(std::move(n), in, out));
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 13}};
  if (!c.domain.empty()) model.opsets.push_back({c.domain, 1});
  model.graph = g.finish();
  return onnx::save_model(model, path);
}

struct Options {
  std::string ours, peer, filter, group;
  int threads = 1;
  double seconds = 0.5;
  bool no_optimisation = false, scaling = false;
};

struct Group {
  double log_sum = 0, least = 1e9;
  int count = 0;
};

// Runs the case on both sides; seconds per run, 0 where a side cannot.
struct Measured {
  double seconds[2] = {}, share = 0;  // share: of the limit, ours
  std::string error;
};

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

constexpr int kBursts = 16;

// A process that has run the model, and how often it runs it in a burst.
struct Side {
  std::unique_ptr<Worker> worker;
  int64_t count = 1;

  Side(const std::string& library, const std::string& path, int threads, const Options& o) {
    Job job;
    job.library = library;
    job.model = path;
    job.threads = threads;
    job.optimise = !o.no_optimisation;
    worker = std::make_unique<Worker>(job);
    worker->ask("load");
    worker->ask("first");
    const std::vector<double> t = worker->ask("loop 2");
    if (!t.empty()) count = std::max<int64_t>(1, static_cast<int64_t>(o.seconds / kBursts / std::max(t[0] / 2, 1e-7)));
  }
  // Seconds of one run, 0 if it cannot: of CPU, or by the clock on the wall.
  double burst(bool wall) {
    const std::vector<double> t = worker->ask("loop " + std::to_string(count));
    return t.empty() ? 0 : t[wall ? 1 : 0] / static_cast<double>(count);
  }
};

void keep_least(double* least, double seconds) {
  if (seconds > 0 && (*least == 0 || seconds < *least)) *least = seconds;
}

Measured measure(const Case& c, const std::string& path, const Options& o) {
  Measured m;
  std::unique_ptr<Side> sides[2];
  const std::string libraries[] = {o.ours, o.peer};
  for (int side = 0; side < 2; ++side) {
    if (libraries[side].empty()) continue;
    sides[side] = std::make_unique<Side>(libraries[side], path, o.threads, o);
    const std::string& error = sides[side]->worker->error();
    if (!error.empty()) m.error += std::string(side ? "peer: " : "ours: ") + error;
  }
  std::vector<float> memory(static_cast<size_t>(c.read_bytes / 4));
  std::vector<double> shares;
  for (int b = 0; b < kBursts; ++b) {
    double limit = probe_flops(best_target(), o.threads);
    if (c.read_bytes)
      limit =
          std::min(limit, c.operations / static_cast<double>(c.read_bytes) * probe_read(memory.data(), c.read_bytes));
    for (int side = 0; side < 2; ++side) {
      const double seconds = sides[side] ? sides[side]->burst(o.threads > 1) : 0;
      keep_least(&m.seconds[side], seconds);
      if (side == 0 && seconds > 0) shares.push_back(c.operations / seconds * 1e-9 / limit);
    }
  }
  m.share = median(std::move(shares));
  return m;
}

using Groups = std::vector<std::pair<std::string, Group>>;

void count_ratio(Groups& groups, const std::string& name, double ratio) {
  if (ratio <= 0) return;
  auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
  if (at == groups.end()) at = groups.insert(groups.end(), {name, {}});
  at->second.log_sum += std::log(ratio);
  at->second.least = std::min(at->second.least, ratio);
  ++at->second.count;
}

void report(const Case& c, const Measured& m, const Options& o, Groups& groups) {
  const double rate = m.seconds[0] > 0 ? c.operations / m.seconds[0] * 1e-9 : 0;
  const double ratio = m.seconds[0] > 0 ? m.seconds[1] / m.seconds[0] : 0;
  std::printf("%-6s %dt %-12s %-34s %9.4f ms  peer %9.4f ms  peer/ours %6.3f  %7.1f G/s  %5.1f %% %s\n",
              std::string(target_name(best_target())).c_str(), o.threads, c.group.c_str(), c.name.c_str(),
              m.seconds[0] * 1e3, m.seconds[1] * 1e3, ratio, rate, 100 * m.share, m.error.c_str());
  count_ratio(groups, c.group, ratio);
}

// How many times as fast several threads are as one, ours and the peer's.
void report_scaling(const Case& c, const std::string& path, const Options& o, Groups& groups) {
  const std::string libraries[] = {o.ours, o.peer};
  std::vector<Side> sides;
  for (const std::string& library : libraries)
    for (const int threads : {1, o.threads}) sides.emplace_back(library, path, threads, o);
  double least[4] = {};
  for (int b = 0; b < kBursts; ++b)
    for (size_t i = 0; i < sides.size(); ++i) {
      keep_least(&least[i], sides[i].burst(true));
      usleep(2000);  // what spins behind a run comes to rest
    }
  const double ours = least[1] > 0 ? least[0] / least[1] : 0, peer = least[3] > 0 ? least[2] / least[3] : 0;
  const double ratio = peer > 0 ? ours / peer : 0;
  std::printf("%-6s 1-%dt %-12s %-34s ours %8.4f -> %8.4f ms (%.2f)  peer %8.4f -> %8.4f ms (%.2f)  ours/peer %.3f\n",
              std::string(target_name(best_target())).c_str(), o.threads, c.group.c_str(), c.name.c_str(),
              least[0] * 1e3, least[1] * 1e3, ours, least[2] * 1e3, least[3] * 1e3, peer, ratio);
  count_ratio(groups, c.group, ratio);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (int status; is_worker(argc, argv, &status)) return status;
  CLI::App app{"Measure single operators with Tessera and a peer library, interleaved in one run"};
  app.footer(
      "Examples:\n  ops_bench\n  TESSERA_TARGET=avx2 ops_bench --group matmul,resnet50\n"
      "  ops_bench --scaling --group matmul,resnet50\n"
      "  ops_bench --filter 768 --seconds 2 --peer /path/to/libonnxruntime.so\n");
  Options o;
  o.ours = find_ours();
  std::vector<std::string> only;
  app.add_option("--peer", o.peer, "Library with ORT's C ABI (default: the onnxruntime wheel in build/venv)");
  app.add_option("--ours", o.ours, "Our library");
  app.add_option("--threads", o.threads, "Threads of both");
  app.add_option("--seconds", o.seconds, "Seconds of runs per case and library");
  app.add_option("--filter", o.filter, "Only cases whose name contains this");
  app.add_option("--group", only, "Only these groups")->delimiter(',');
  app.add_flag("--scaling", o.scaling, "Measure how much faster several threads (default: 2) are than one");
  app.add_flag("--no-rewrites", o.no_optimisation, "Turn graph rewrites off on both sides");
  CLI11_PARSE(app, argc, argv);
  if (o.peer.empty()) o.peer = find_peer();
  if (o.scaling) o.threads = std::max(o.threads, 2);
  if (o.threads > 1) clock_in_use = CLOCK_MONOTONIC;
  std::vector<Case> cases;
  add_products(cases);
  add_block_products(cases);
  add_convolutions(cases);
  add_halves(cases);
  add_pools(cases);
  const std::string path = (fs::temp_directory_path() / format("ops_bench_{}.onnx", int64_t{getpid()})).string();
  Groups groups;
  for (const Case& c : cases) {
    if (c.name.find(o.filter) == std::string::npos) continue;
    if (!only.empty() && std::find(only.begin(), only.end(), c.group) == only.end()) continue;
    if (const Status s = write(c, path); !s.ok()) {
      std::fprintf(stderr, "%s\n", s.message().c_str());
      return 1;
    }
    if (o.scaling)
      report_scaling(c, path, o, groups);
    else
      report(c, measure(c, path, o), o, groups);
  }
  fs::remove(path);
  for (const auto& [name, g] : groups)
    std::printf("%-12s %3d cases: geometric mean of %s %.3f, least %.3f\n", name.c_str(), g.count,
                o.scaling ? "scaling, ours/peer," : "peer/ours", std::exp(g.log_sum / g.count), g.least);
}
