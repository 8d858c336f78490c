// RegexFullMatch — whether the whole of each string matches a pattern of re2's syntax.
#include "ops/op.h"
#include "ops/text/text_library.h"

namespace tessera {
namespace {

// For the compiled pattern and what matching caches.
constexpr int64_t kMaxPatternBytes = 8 << 20;

struct Params {
  std::string pattern;
};
Status parse(Attrs& a, Params& p) {
  if (!a.has("pattern")) return invalid_graph("it has no attribute 'pattern'");
  a.get("pattern", p.pattern);
  return {};
}

struct Regex {
  const TesseraText* library = nullptr;
  void* compiled = nullptr;

  Regex() = default;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex() {
    if (compiled) library->regex_free(compiled);
  }
};

Status prepare(const void* params, std::shared_ptr<const void>* out) {
  const Params& p = *static_cast<const Params*>(params);
  auto regex = std::make_shared<Regex>();
  TRY_ASSIGN(library, text_library());
  regex->library = library;
  char message[256] = "";
  regex->compiled =
      library->regex_compile(p.pattern.data(), p.pattern.size(), kMaxPatternBytes, message, sizeof message);
  if (!regex->compiled)
    return invalid_graph("attribute 'pattern' is {}, wanted re2's syntax: {}", quote(p.pattern),
                         std::string_view(message));
  *out = std::move(regex);
  return {};
}

constexpr int64_t kChunk = 256;

Status compute(Call& call) {
  const auto& regex = call.prepared<Regex>();
  const auto* x = call.in<std::string>(0);
  auto* y = call.out<bool>(0);
  const int64_t n = call.count(0);
  std::atomic<bool> failed = false;
  call.parallel(ceil_div(n, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      if (call.cancelled()) return;
      const int found = regex.library->regex_full_match(regex.compiled, x[i].data(), x[i].size());
      if (found < 0) failed = true;
      y[i] = found > 0;
    }
  });
  if (call.cancelled()) return call.stopped();
  if (failed) return error(Code::fail, "there is no memory to match the pattern");
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::string)}, {out_arg(0), set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kRegexFullMatch{.domain = "",
                                    .name = "RegexFullMatch",
                                    .versions = kVersions,
                                    .parse = parse_params<Params, parse>,
                                    .types = type_always<DType::boolean>,
                                    .shape = shape_of_input<int64_t>,
                                    .kernels = kKernels,
                                    .prepare = prepare};
extern constexpr OpInference kRegexFullMatchInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
