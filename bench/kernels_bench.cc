// Speed of the kernels beside the limit of this machine, on every target it has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "kernels/conv.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"
#include "probe.h"

namespace tessera {
namespace {

using namespace bench;

constexpr char kHelp[] =
    "kernels_bench [--target NAME] [--threads N] [--seconds S] [--filter TEXT]\n"
    "  --target   only this one of scalar, sse4, avx2, avx512 (default: every target this CPU has, but scalar)\n"
    "  --threads  threads a kernel may use (default 1)\n"
    "  --seconds  time spent on one line (default 0.3)\n"
    "  --filter   only lines whose name contains TEXT\n"
    "Each line gives the best of several runs and its share of the limit: for gemm and conv the multiply-add rate of "
    "a\n"
    "register-only loop (for gemm of few rows the rate of reading the matrix, if lower), for the others the rate at\n"
    "which memory of the same size is read; both are measured in turn with the kernel.\n";

struct Options {
  std::vector<Target> targets;
  int threads = 1;
  double seconds = 0.3;
  std::string filter;
  bool streams = true;  // false if the filter names gemm or conv
};

struct Free {
  void operator()(void* p) const { free(p); }
};
using Floats = std::unique_ptr<float[], Free>;

Floats floats(int64_t count, float scale = 1.0f) {
  Floats p(static_cast<float*>(aligned_alloc(64, static_cast<size_t>(count + 32) / 16 * 64)));
  for (int64_t i = 0; i < count; ++i) p[i] = scale * (static_cast<float>((i * 2654435761u >> 7) % 2001) * 1e-3f - 1.0f);
  return p;
}

struct Best {
  double rate = 0, limit = 0;
};

// Runs kernel and limit in turn; rate is `amount` (in 1e9) per second of the fastest run.
Best measure(double seconds, double amount, FunctionRef<void()> kernel, FunctionRef<double()> limit) {
  Best best;
  kernel();
  for (double start = now(); now() - start < seconds;) {
    best.limit = std::max(best.limit, limit());
    for (int i = 0; i < 4; ++i) {
      const double t = now();
      kernel();
      best.rate = std::max(best.rate, amount / (now() - t));
    }
  }
  return best;
}

void report(const Options& o, Target target, const std::string& name, const Best& best, const char* unit) {
  printf("%-7s %dt  %-34s %8.1f %s  limit %8.1f  %5.1f %%\n", std::string(target_name(target)).c_str(), o.threads,
         name.c_str(), best.rate, unit, best.limit, 100 * best.rate / best.limit);
  fflush(stdout);
}

bool wanted(const Options& o, const std::string& name) { return name.find(o.filter) != std::string::npos; }

void bench_gemm(const Options& o, Target target) {
  struct Shape {
    int64_t m, n, k;
    bool trans_a;
  };
  constexpr Shape kShapes[] = {{1, 768, 768, false},      {1, 4096, 4096, false}, {2, 768, 768, false},
                               {4, 768, 768, false},      {8, 768, 3072, false},  {16, 768, 768, false},
                               {64, 64, 64, false},       {128, 768, 768, false}, {128, 3072, 768, false},
                               {128, 768, 3072, false},   {512, 512, 512, false}, {512, 512, 512, true},
                               {1024, 1024, 1024, false}, {49, 512, 4608, false}, {3136, 64, 576, false}};
  for (const Shape& s : kShapes) {
    const std::string name = "gemm " + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                             (s.trans_a ? " A transposed" : "");
    if (!wanted(o, name)) continue;
    const Floats a = floats(s.m * s.k), b = floats(s.n * s.k), c = floats(s.m * s.n);
    const Floats packed = floats(static_cast<int64_t>(gemm_packed_bytes(s.n, s.k) / 4));
    gemm_pack_b(b.get(), s.n, false, s.k, s.n, packed.get(), 1);
    const auto run = [&] {
      gemm_f32(target, o.threads, s.m, s.n, s.k, a.get(), s.trans_a ? s.m : s.k, s.trans_a, packed.get(), c.get(), s.n,
               {});
    };
    const double amount = 2e-9 * static_cast<double>(s.m * s.n * s.k);
    // Few rows: the rate at which the packed matrix can be read may be the lower limit.
    const double per_byte = 0.5 * static_cast<double>(s.m);
    const auto limit = [&] {
      const double flops = probe_flops(target, o.threads);
      return s.m > 8 ? flops : std::min(flops, per_byte * o.threads * probe_read(packed.get(), 4 * s.n * s.k));
    };
    report(o, target, name, measure(o.seconds, amount, run, limit), "GF/s");
  }
}

void bench_conv(const Options& o, Target target) {
  struct Layer {
    const char* name;
    int64_t channels, out_channels, groups, size, kernel, stride;
  };
  constexpr Layer kLayers[] = {
      {"7x7s2 3-64 @224", 3, 64, 1, 224, 7, 2},     {"3x3 64 @56", 64, 64, 1, 56, 3, 1},
      {"3x3 128 @28", 128, 128, 1, 28, 3, 1},       {"3x3s2 128 @56", 128, 128, 1, 56, 3, 2},
      {"3x3 256 @14", 256, 256, 1, 14, 3, 1},       {"3x3 512 @7", 512, 512, 1, 7, 3, 1},
      {"1x1 64-256 @56", 64, 256, 1, 56, 1, 1},     {"1x1 1024-256 @14", 1024, 256, 1, 14, 1, 1},
      {"3x3s2 3-16 @224", 3, 16, 1, 224, 3, 2},     {"1x1s2 1024-2048 @14", 1024, 2048, 1, 14, 1, 2},
      {"1x1 80-480 @14", 80, 480, 1, 14, 1, 1},     {"1x1 160-960 @7", 160, 960, 1, 7, 1, 1},
      {"1x1 2048-512 @7", 2048, 512, 1, 7, 1, 1},   {"dw3x3 144 @56", 144, 144, 144, 56, 3, 1},
      {"dw3x3s2 144 @56", 144, 144, 144, 56, 3, 2}, {"dw5x5 672 @14", 672, 672, 672, 14, 5, 1},
      {"dw3x3 960 @7", 960, 960, 960, 7, 3, 1},     {"dw3x3 9600 @7", 9600, 9600, 9600, 7, 3, 1},
      {"dw3x3 9600 @4", 9600, 9600, 9600, 4, 3, 1}};
  for (const Layer& l : kLayers) {
    const std::string name = std::string("conv ") + l.name;
    if (!wanted(o, name)) continue;
    ConvShape s{1, l.channels, l.out_channels, l.groups};
    for (int d = 1; d < 3; ++d) {
      s.in[d] = l.size;
      s.kernel[d] = l.kernel;
      s.stride[d] = l.stride;
      s.pad[d] = l.kernel / 2;
      s.out[d] = (l.size + 2 * s.pad[d] - l.kernel) / l.stride + 1;
    }
    const int64_t pixels = s.out[1] * s.out[2], taps = l.channels / l.groups * l.kernel * l.kernel;
    const Floats x = floats(l.channels * l.size * l.size), w = floats(l.out_channels * taps),
                 y = floats(l.out_channels * pixels);
    const Floats packed = floats(static_cast<int64_t>(conv_packed_bytes(s) / 4)), bias = floats(l.out_channels);
    const Floats scratch = floats(static_cast<int64_t>(conv_scratch_bytes(s) / 4) * o.threads);
    conv_pack(s, w.get(), packed.get(), 1);
    const auto run = [&] {
      conv_f32(target, o.threads, s, x.get(), packed.get(), bias.get(), GemmActivation::relu, y.get(), scratch.get());
    };
    const double amount = 2e-9 * static_cast<double>(l.out_channels * pixels * taps);
    report(o, target, name, measure(o.seconds, amount, run, [&] { return probe_flops(target, o.threads); }), "GF/s");
  }
}

// Kernels bound by memory: bytes read and written per second beside the rate of reading as much. Single-threaded.
void bench_streams(const Options& o, Target target) {
  constexpr const char* kUnary[] = {"exp",       "log",  "tanh",       "sigmoid",  "erf", "relu",  "gelu_erf",
                                    "gelu_tanh", "sqrt", "reciprocal", "neg",      "abs", "floor", "ceil",
                                    "round",     "sin",  "cos",        "softplus", "sign"};
  for (int64_t n : {int64_t{4096}, int64_t{1} << 24}) {
    if (!o.streams) return;
    const Floats x = floats(n, 4), y = floats(n), z = floats(n);
    auto* half = reinterpret_cast<uint16_t*>(z.get());
    const std::string size = n > 4096 ? " 64 MiB" : " 16 KiB";
    // Small arrays are run many times per measurement.
    const int64_t repeats = std::max<int64_t>(1, (1 << 18) / n);
    const auto line = [&](const std::string& name, double bytes, FunctionRef<void()> kernel) {
      if (!wanted(o, name + size)) return;
      const auto run = [&] {
        for (int64_t i = 0; i < repeats; ++i) kernel();
      };
      const double amount = 1e-9 * bytes * static_cast<double>(n * repeats);
      report(o, target, name + size, measure(o.seconds, amount, run, [&] { return probe_read(x.get(), 4 * n); }),
             "GB/s");
    };
    for (int op = 0; op < kUnaryCount; ++op)
      line(kUnary[op], 8, [&] { unary_f32(target, static_cast<Unary>(op), x.get(), y.get(), n); });
    line("add", 12, [&] { binary_f32(target, Binary::add, x.get(), 1, z.get(), 1, y.get(), n); });
    line("f16_to_f32", 6, [&] { f16_to_f32(target, half, y.get(), n); });
    line("f32_to_f16", 6, [&] { f32_to_f16(target, x.get(), half, n); });
    line("softmax 512", 8, [&] { softmax_rows(target, 1, x.get(), y.get(), n / 512, 512); });
    line("layer_norm 512", 8, [&] { layer_norm_rows(target, 1, x.get(), y.get(), n / 512, 512, {}); });
    line("reduce_sum", 4, [&] { reduce_rows(target, 1, RowReduce::sum, x.get(), y.get(), 1, n); });
    const int64_t dims[] = {64, n / 64};
    const int perm[] = {1, 0};
    line("transpose 64", 8, [&] { transpose(x.get(), y.get(), 4, dims, perm, 1); });
  }
}

bool parse(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--help" || i + 1 == argc) return false;
    const char* value = argv[++i];
    Target target;
    if (flag == "--target" && parse_target(value, &target))
      o->targets = {target};
    else if (flag == "--threads")
      o->threads = std::max(1, atoi(value));
    else if (flag == "--seconds")
      o->seconds = atof(value);
    else if (flag == "--filter")
      o->filter = value, o->streams = !o->filter.starts_with("gemm") && !o->filter.starts_with("conv");
    else
      return false;
  }
  if (o->targets.empty())
    for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
      if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) o->targets.push_back(t);
  if (o->targets.empty()) o->targets.push_back(Target::scalar);
  return true;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::Options options;
  if (!tessera::parse(argc, argv, &options)) {
    fputs(tessera::kHelp, stdout);
    return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
  }
  if (options.threads > 1) tessera::bench::clock_in_use = CLOCK_MONOTONIC;
  for (tessera::Target target : options.targets) {
    tessera::bench_gemm(options, target);
    tessera::bench_conv(options, target);
    tessera::bench_streams(options, target);
  }
}
