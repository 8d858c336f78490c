// contrib_bench: the fused attention operators and MatMulNBits of com.microsoft, ours beside a peer library, in one
// run.
//
// Per case a model of one node is written; both libraries run it in bursts in turn. The least CPU time (with several
// threads, wall time) of a burst counts. "shared": the cache grows where it lies; else each run makes a new one.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "peer.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

enum class Kind { input, weight, number };

struct Argument {
  std::string name;
  DType type;
  std::vector<int64_t> dims;
  Kind kind = Kind::input;
  int64_t number = 0;  // the only content of a Kind::number
};

struct Case {
  std::string group, name, op;
  std::vector<Argument> in = {}, out = {};
  std::vector<ir::Attribute> attributes = {};
  bool share = false;
};

struct Form {
  DType type;
  int64_t heads, kv_heads, size, queries, past;
  bool share = false;

  std::string text() const {
    return format("{} {}x{} {} {}{}", type == DType::f16 ? "f16" : "f32", heads, size,
                  queries > 1 ? format("prefill {}", queries) : format("decode {}", past),
                  kv_heads != heads ? format(" kv {}", kv_heads) : std::string(), share ? " shared" : "");
  }
};

Argument number(const char* name, int64_t value) { return {name, DType::i32, {1}, Kind::number, value}; }
const Argument kAbsent{"", DType::undefined, {}};

Case attention(const Form& f) {
  const int64_t width = f.heads * f.size;
  Case c{"Attention", f.text(), "Attention"};
  c.in = {{"x", f.type, {1, f.queries, width}},
          {"w", f.type, {width, 3 * width}, Kind::weight},
          {"b", f.type, {3 * width}, Kind::weight}};
  c.out = {{"y", f.type, {1, f.queries, width}}};
  c.attributes = {ir::Attribute::integer("num_heads", f.heads), ir::Attribute::integer("unidirectional", f.past > 0)};
  if (f.past) {
    c.in.push_back(kAbsent);
    c.in.push_back({"past", f.type, {2, 1, f.heads, f.past, f.size}});
    c.out.push_back({"present", f.type, {2, 1, f.heads, f.past + 1, f.size}});
  }
  return c;
}

// Of MultiHeadAttention, and of its form for one query.
Case many_heads(const Form& f, bool decoder) {
  const int64_t width = f.heads * f.size, room = f.past + (f.share ? 1 : 0);
  Case c{decoder ? "DecoderMasked" : "MultiHead", f.text(),
         decoder ? "DecoderMaskedMultiHeadAttention" : "MultiHeadAttention"};
  for (const char* name : {"q", "k", "v"}) c.in.push_back({name, f.type, {1, f.queries, width}});
  c.out = {{"y", f.type, {1, f.queries, width}}};
  c.attributes = {ir::Attribute::integer("num_heads", f.heads)};
  c.share = f.share;
  if (!f.past) return c;
  c.in.insert(c.in.end(), decoder ? 2 : 3, kAbsent);
  for (const char* name : {"_key", "_value"}) {
    c.in.push_back({std::string("past") + name, f.type, {1, f.heads, room, f.size}});
    c.out.push_back({std::string("present") + name, f.type, {1, f.heads, f.past + 1, f.size}});
  }
  if (f.share) c.in.push_back(number("past_length", f.past));
  if (decoder) c.attributes.push_back(ir::Attribute::integer("past_present_share_buffer", f.share));
  return c;
}

Case group_query(const Form& f) {
  const int64_t total = f.past + f.queries, room = f.share ? total : f.past;
  Case c{"GroupQuery", f.text(), "GroupQueryAttention"};
  c.in = {{"q", f.type, {1, f.queries, f.heads * f.size}},
          {"k", f.type, {1, f.queries, f.kv_heads * f.size}},
          {"v", f.type, {1, f.queries, f.kv_heads * f.size}}};
  c.out = {{"y", f.type, {1, f.queries, f.heads * f.size}}};
  for (const char* name : {"_key", "_value"}) {
    c.in.push_back({std::string("past") + name, f.type, {1, f.kv_heads, room, f.size}});
    c.out.push_back({std::string("present") + name, f.type, {1, f.kv_heads, total, f.size}});
  }
  c.in.push_back(number("lengths", total - 1));
  c.in.push_back(number("total", total));
  for (const char* name : {"cos", "sin"}) c.in.push_back({name, f.type, {2048, f.size / 2}, Kind::weight});
  c.attributes = {ir::Attribute::integer("num_heads", f.heads), ir::Attribute::integer("kv_num_heads", f.kv_heads),
                  ir::Attribute::integer("do_rotary", 1)};
  c.share = f.share;
  return c;
}

Case block_product(DType type, int64_t m, int64_t bits, int64_t block, int64_t level) {
  constexpr int64_t kN = 2048, kK = 2048;
  Case c{"MatMulNBits",
         format("{} M {} bits {} block {} level {}", type == DType::f16 ? "f16" : "f32", m, bits, block, level),
         "MatMulNBits"};
  c.in = {{"a", type, {1, m, kK}},
          {"b", DType::u8, {kN, kK / block, block * bits / 8}, Kind::weight},
          {"scales", type, {kN * kK / block}, Kind::weight}};
  c.out = {{"y", type, {1, m, kN}}};
  c.attributes = {ir::Attribute::integer("K", kK), ir::Attribute::integer("N", kN),
                  ir::Attribute::integer("bits", bits), ir::Attribute::integer("block_size", block),
                  ir::Attribute::integer("accuracy_level", level)};
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const DType type : {DType::f32, DType::f16})
    for (const int64_t size : {64, 128}) {
      const int64_t heads = 1024 / size;
      for (const int64_t queries : {128, 512}) {
        out.push_back(attention({type, heads, heads, size, queries, 0}));
        out.push_back(many_heads({type, heads, heads, size, queries, 0}, false));
        out.push_back(group_query({type, 2 * heads, heads / 2, size, queries, 0}));
        out.push_back(group_query({type, 2 * heads, heads / 2, size, queries, 0, true}));
      }
      for (const int64_t past : {127, 1023}) {
        out.push_back(attention({type, heads, heads, size, 1, past}));
        out.push_back(many_heads({type, heads, heads, size, 1, past}, false));
        out.push_back(many_heads({type, heads, heads, size, 1, past, true}, true));
        out.push_back(group_query({type, 2 * heads, heads / 2, size, 1, past}));
        out.push_back(group_query({type, 2 * heads, heads / 2, size, 1, past, true}));
      }
    }
  for (const DType type : {DType::f32, DType::f16})
    for (const int64_t m : {1, 128, 512})
      for (const int64_t block : {32, 128})
        for (const int64_t level : {0, 4}) out.push_back(block_product(type, m, 4, block, level));
  out.push_back(block_product(DType::f32, 1, 8, 32, 4));
  out.push_back(block_product(DType::f32, 128, 8, 32, 4));
  return out;
}

Result<Tensor> content_of(const Argument& a) {
  TRY_ASSIGN(t, Tensor::allocate(a.type, Shape(a.dims)));
  uint32_t state = 12345;
  for (int64_t i = 0; i < t.shape().count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float real = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) / 16;
    if (a.type == DType::i32)
      static_cast<int32_t*>(t.mutable_data())[i] = static_cast<int32_t>(a.number);
    else if (a.type == DType::f32)
      static_cast<float*>(t.mutable_data())[i] = real;
    else if (a.type == DType::f16)
      static_cast<uint16_t*>(t.mutable_data())[i] = float_to_f16(real);
    else
      static_cast<uint8_t*>(t.mutable_data())[i] = static_cast<uint8_t>(state >> 24);
  }
  return t;
}

Status write(const Case& c, const std::string& path) {
  ir::GraphBuilder g;
  const auto fact = [](const Argument& a) {
    return Fact::tensor(a.type, std::vector<Dim>(a.dims.begin(), a.dims.end()));
  };
  std::vector<std::string_view> in, out;
  for (const Argument& a : c.in) {
    in.push_back(a.name);
    if (a.name.empty()) continue;
    if (a.kind == Kind::input) {
      TRY(g.input(a.name, fact(a)));
      continue;
    }
    TRY_ASSIGN(t, content_of(a));
    TRY(g.initializer(a.name, Weight::from(t)));
  }
  for (const Argument& a : c.out) {
    out.push_back(a.name);
    g.output(a.name, fact(a));
  }
  ir::Node n;
  n.op_type = c.op;
  n.domain = "com.microsoft";
  n.name = "node";
  n.attributes = c.attributes;
  TRY(g.node(std::move(n), in, out));
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}, {"com.microsoft", 1}};
  model.graph = g.finish();
  return onnx::save_model(model, path);
}

struct Options {
  std::string ours, peer, filter;
  std::vector<std::string> groups;
  std::vector<int> threads{1, 2};
  double seconds = 0.4;
};

// Seconds per run of both sides, 0 where one cannot.
struct Measured {
  double seconds[2] = {};
  std::string error;
};

Measured measure(const Case& c, const std::string& path, const Options& o, int threads) {
  constexpr int kBursts = 16;
  Measured m;
  std::unique_ptr<Worker> workers[2];
  const std::string libraries[] = {o.ours, o.peer};
  int64_t count[2] = {1, 1};
  for (int side = 0; side < 2; ++side) {
    if (libraries[side].empty()) continue;
    Job job;
    job.library = libraries[side];
    job.model = path;
    job.threads = threads;
    job.share = c.share;
    workers[side] = std::make_unique<Worker>(job);
    workers[side]->ask("load");
    workers[side]->ask("first");
    const std::vector<double> t = workers[side]->ask("loop 2");
    if (t.empty())
      m.error += std::string(side ? "peer: " : "ours: ") + workers[side]->error();
    else
      count[side] = std::max<int64_t>(1, static_cast<int64_t>(o.seconds / kBursts / std::max(t[0] / 2, 1e-7)));
  }
  for (int b = 0; b < kBursts; ++b)
    for (int side = 0; side < 2; ++side) {
      if (!workers[side]) continue;
      const std::vector<double> t = workers[side]->ask("loop " + std::to_string(count[side]));
      if (t.empty()) continue;
      const double each = t[threads > 1 ? 1 : 0] / static_cast<double>(count[side]);  // CPU or wall time
      if (m.seconds[side] == 0 || each < m.seconds[side]) m.seconds[side] = each;
    }
  return m;
}

struct Group {
  std::string name;
  double log_sum = 0, least = 1e9;
  int count = 0;
};

void add(std::vector<Group>& groups, const std::string& name, double ratio) {
  auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.name == name; });
  if (at == groups.end()) at = groups.insert(groups.end(), {name});
  at->log_sum += std::log(ratio);
  at->least = std::min(at->least, ratio);
  ++at->count;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (int status; is_worker(argc, argv, &status)) return status;
  CLI::App app{"Measure the fused operators with Tessera and a peer library, interleaved in one run"};
  app.footer(
      "Examples:\n  contrib_bench\n  contrib_bench --group GroupQuery --filter decode --threads 1\n"
      "  contrib_bench --seconds 2 --peer /path/to/libonnxruntime.so\n");
  Options o;
  o.ours = find_ours();
  app.add_option("--peer", o.peer, "Library with ORT's C ABI (default: the onnxruntime wheel in build/venv)");
  app.add_option("--ours", o.ours, "Our library");
  app.add_option("--threads", o.threads, "Threads of both, one pass for each")->delimiter(',');
  app.add_option("--seconds", o.seconds, "Seconds of runs per case and library");
  app.add_option("--filter", o.filter, "Only cases whose name contains this");
  app.add_option("--group", o.groups, "Only these groups")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  if (o.peer.empty()) o.peer = find_peer();
  const std::string path = (fs::temp_directory_path() / format("contrib_bench_{}.onnx", int64_t{getpid()})).string();
  std::vector<Group> groups;
  for (const int threads : o.threads)
    for (const Case& c : all_cases()) {
      if (c.name.find(o.filter) == std::string::npos) continue;
      if (!o.groups.empty() && std::find(o.groups.begin(), o.groups.end(), c.group) == o.groups.end()) continue;
      if (const Status s = write(c, path); !s.ok()) {
        std::fprintf(stderr, "%s\n", s.message().c_str());
        return 1;
      }
      const Measured m = measure(c, path, o, threads);
      const double ratio = m.seconds[0] > 0 ? m.seconds[1] / m.seconds[0] : 0;
      std::printf("%dt %-13s %-36s %9.4f ms  peer %9.4f ms  peer/ours %6.3f %s\n", threads, c.group.c_str(),
                  c.name.c_str(), m.seconds[0] * 1e3, m.seconds[1] * 1e3, ratio, m.error.c_str());
      if (ratio > 0) add(groups, c.group, ratio);
    }
  fs::remove(path);
  for (const Group& g : groups)
    std::printf("%-13s %3d cases: geometric mean of peer/ours %.3f, least %.3f\n", g.name.c_str(), g.count,
                std::exp(g.log_sum / g.count), g.least);
}
