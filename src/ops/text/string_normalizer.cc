// StringNormalizer — drops the strings that are stop words, then changes the case of the others. The locale named by
// the model is not asked for: Unicode's own mappings serve all languages but those of the Turkic i.
#include <unordered_set>

#include "ops/op.h"
#include "ops/text/text_library.h"

namespace tessera {
namespace {

enum Action { kNone, kLower, kUpper };

struct Params {
  int action = kNone;
  bool is_case_sensitive = false;
  std::vector<std::string> stopwords;

  bool folds_stopwords() const { return !is_case_sensitive && !stopwords.empty(); }
};
Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kActions[] = {"NONE", "LOWER", "UPPER"};
  a.get_choice("case_change_action", p.action, kActions);
  a.get("is_case_sensitive", p.is_case_sensitive);
  a.get("stopwords", p.stopwords);
  return {};
}

// Stop words as they are compared: without regard to case they are in the case of the output, or in lower case.
struct Prepared {
  const TesseraText* library = nullptr;  // null: no case changes
  std::unordered_set<std::string> stopwords;
};

Status prepare(const void* params, std::shared_ptr<const void>* out) {
  const Params& p = *static_cast<const Params*>(params);
  auto prepared = std::make_shared<Prepared>();
  if (p.action != kNone || p.folds_stopwords()) {
    TRY_ASSIGN(library, text_library());
    prepared->library = library;
  }
  for (const std::string& word : p.stopwords) {
    std::string key = word;
    if (p.folds_stopwords() && !change_case(*prepared->library, p.action == kUpper, word, &key))
      return invalid_graph("attribute 'stopwords' has {}, wanted UTF-8", quote(word));
    prepared->stopwords.insert(std::move(key));
  }
  *out = std::move(prepared);
  return {};
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  const int rank = c.rank(0);
  if (rank != 1 && rank != 2) return c.refuse(0, "shape [C] or [1,C]");
  if (rank == 2 && c.dim(0, 0).known() && c.dim(0, 0).value() != 1) return c.refuse(0, "shape [C] or [1,C]");
  return rank == 1 ? c.set(0, DimVec<Dim>{c.fresh()}) : c.set(0, DimVec<Dim>{Dim(1), c.fresh()});
}

Status compute(const Params& p, Call& call) {
  const auto& prepared = call.prepared<Prepared>();
  const Shape& shape = call.shape(0);
  const int rank = shape.rank();
  if ((rank != 1 && rank != 2) || (rank == 2 && shape[0] != 1)) return call.refuse(0, "shape [C] or [1,C]");
  const auto* x = call.in<std::string>(0);
  std::vector<std::string> kept;
  for (int64_t i = 0, n = call.count(0); i < n; ++i) {
    if (call.cancelled()) return call.stopped();
    std::string changed;
    if (prepared.library && !change_case(*prepared.library, p.action == kUpper, x[i], &changed))
      return call.refuse(0, "UTF-8 in element {}", i);
    const std::string& key = p.folds_stopwords() ? changed : x[i];
    if (prepared.stopwords.contains(key)) continue;
    kept.push_back(p.action == kNone ? x[i] : std::move(changed));
  }
  if (!call.wants(0)) return {};
  if (kept.empty()) kept.emplace_back();
  const auto count = static_cast<int64_t>(kept.size());
  TRY_ASSIGN(y, call.allocate<std::string>(0, rank == 1 ? Shape{count} : Shape{1, count}));
  std::move(kept.begin(), kept.end(), y);
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::string)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {10};

}  // namespace

extern constexpr Op kStringNormalizer{.domain = "",
                                      .name = "StringNormalizer",
                                      .versions = kVersions,
                                      .parse = parse_params<Params, parse>,
                                      .kernels = kKernels,
                                      .prepare = prepare};
extern constexpr OpInference kStringNormalizerInference{.shape = infer_shape};

}  // namespace tessera
