// Saving the optimised model: which operator sets can say it, which weights go where, and in which order files appear.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/checked.h"
#include "base/file.h"
#include "base/sha1.h"
#include "formats/onnx/writer.h"
#include "formats/ort/writer.h"
#include "ir/inline.h"
#include "ops/resolve.h"
#include "passes/check_signatures.h"
#include "passes/infer.h"
#include "passes/rewrite.h"
#include "passes/same_since.h"
#include "session/load_steps.h"
#include "session/save.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Cancel = std::atomic<bool>;

constexpr int64_t kLargestModel = INT32_MAX;   // that protobuf's readers take
constexpr int64_t kPageAlignedFrom = 1 << 20;  // weights of more bytes begin at a page
constexpr int64_t kPage = 4096;
constexpr int64_t kSmallestList = 1024;  // bytes of a list of integers that goes into another file

template <class F>
void for_each_live_node(const ir::Graph& graph, F&& f) {
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    f(n);
    ir::for_each_subgraph(
        n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { for_each_live_node(*sub, f); });
  }
}

// True if operator set `version` gives the node the meaning it has.
bool means_the_same(const ir::Node& n, int64_t version) {
  if (n.op != find_op(n.domain, n.op_type)) return n.version == version;  // a custom operator
  const auto newer = std::upper_bound(n.op->versions.begin(), n.op->versions.end(), version);
  return newer != n.op->versions.begin() && *(newer - 1) == n.since;
}

// Imports operator sets in which every node means what it means here; false if there are none.
bool choose_opsets(Model& model) {
  std::map<std::string, std::vector<const ir::Node*>> by_domain;
  for_each_live_node(*model.graph, [&](const ir::Node& n) { by_domain[n.domain].push_back(&n); });
  for (const auto& [domain, nodes] : by_domain) {
    std::vector<int64_t> candidates = {model.opset(domain)};
    for (const ir::Node* n : nodes) candidates.push_back(n->version);
    std::sort(candidates.begin() + 1, candidates.end());
    const auto fits = [&](int64_t version) {
      return version > 0 &&
             std::all_of(nodes.begin(), nodes.end(), [&](const ir::Node* n) { return means_the_same(*n, version); });
    };
    candidates.erase(std::unique(candidates.begin() + 1, candidates.end()), candidates.end());
    const auto chosen = std::find_if(candidates.begin(), candidates.end(), fits);
    if (chosen == candidates.end()) return false;
    std::erase_if(model.opsets, [&](const auto& o) { return o.first == domain && o.second != *chosen; });
    if (model.opset(domain) == 0) model.opsets.emplace_back(domain, *chosen);
  }
  return true;
}

Result<Model> read(const BytesPtr& bytes, ExternalData& external, const SessionOptions& options) {
  return read_either(bytes, external, options, &ort::kernel_types, std::make_shared<DimPool>());
}

// The model without functions, with the types of its values.
Result<Model> read_typed(const BytesPtr& bytes, ExternalData& external, const SessionOptions& options) {
  TRY_ASSIGN(model, read(bytes, external, options));
  TRY(ir::inline_functions(model));
  model.functions.clear();
  TRY(check_signatures(*model.graph, options.custom_ops));
  TRY(resolve(*model.graph, {.extra = options.custom_ops, .allow_newer = options.allow_newer_opsets}));
  TRY(infer(*model.graph));
  return std::move(model);
}

// The model as it is to be written.
Result<Model> optimised(const BytesPtr& bytes, ExternalData& external, const SessionOptions& options,
                        const SaveOptions& save) {
  TRY_ASSIGN(model, read_typed(bytes, external, options));
  const auto opset = static_cast<int>(std::max<int64_t>(1, model.opset("")));
  TRY_ASSIGN(counts, rewrite(*model.graph, rewrite_rules(),
                             {options.optimization_level,
                              options.disabled_rewrites,
                              options.most_rewrites,
                              options.rewrites,
                              {opset, is_same_since}}));
  if (choose_opsets(model)) return std::move(model);
  return save.as_ort ? read_typed(bytes, external, options) : read(bytes, external, options);
}

// The weights that go into a file of external data, in its order.
void list_outside(const ir::Graph& graph, int64_t smallest, std::vector<const Weight*>& out) {
  for (ir::ValueId id = 0; id < graph.values().size(); ++id) {
    const Weight* w = graph.weight_of(id);
    const ir::ValueInfo& v = graph.value(id);
    // Other runtimes read lists of sizes while they load, and only inside the model.
    if (w && w->dtype == DType::i64 && w->bytes() < kSmallestList) continue;
    if (!w || w->sparse || w->dtype == DType::string || w->bytes() < smallest || w->bytes() == 0) continue;
    if (v.is_input || v.is_output || !graph.readers(id).empty()) out.push_back(w);
  }
  for (const ir::Node& n : graph.nodes())
    if (!n.dead)
      ir::for_each_subgraph(
          n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { list_outside(*sub, smallest, out); });
}

// A file of external data, written front to back.
class DataFile {
 public:
  DataFile(std::unique_ptr<AtomicFile> file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  // Bytes that lie at one place are written once.
  Status add(const Weight& weight, onnx::WriteOptions& out) {
    Tensor tensor;
    if (!weight.range.source) {
      TRY_ASSIGN(t, weight.tensor());
      tensor = std::move(t);
    }
    const auto size = static_cast<size_t>(weight.bytes());
    const void* data = weight.range.source ? weight.range.data() : tensor.data();
    const auto [known, is_new] = offsets_.try_emplace({data, size}, 0);
    if (is_new) {
      TRY(pad_to(round_up(at_, weight.bytes() > kPageAlignedFrom ? kPage : static_cast<int64_t>(kAlignment))));
      known->second = static_cast<uint64_t>(at_);
      TRY(write(data, size));
      drop_pages(weight.range);
    }
    out.places[&weight] = {name_, known->second, {}};
    return {};
  }
  Status finish(onnx::WriteOptions& out) {
    const std::string checksum = sha1_.finish();
    for (auto& [weight, place] : out.places) place.checksum = checksum;
    return file_->finish();
  }

 private:
  Status write(const void* data, size_t size) {
    constexpr size_t kPiece = 4u << 20;  // so that cancelling is noticed inside a weight
    at_ += static_cast<int64_t>(size);
    for (size_t done = 0; done < size; done += kPiece) {
      const auto* piece = static_cast<const std::byte*>(data) + done;
      const size_t length = std::min(kPiece, size - done);
      sha1_.add(piece, length);
      TRY(file_->write(piece, length));
    }
    return {};
  }
  Status pad_to(int64_t offset) {
    static constexpr char kZeros[kPage] = {};
    return write(kZeros, static_cast<size_t>(offset - at_));
  }

  std::unique_ptr<AtomicFile> file_;
  std::string name_;
  std::map<std::pair<const void*, size_t>, uint64_t> offsets_;
  int64_t at_ = 0;
  Sha1 sha1_;
};

// The name of the file of external data in the folder of the model.
Result<std::string> data_name(const SaveOptions& save) {
  const fs::path name = fs::path(save.data_file).lexically_normal();
  if (name.is_absolute() || name.empty() || *name.begin() == "..")
    return invalid("the file of external data {} is not beneath the folder of the model", quote(save.data_file));
  return name.generic_string();
}

Status write_data(const Model& model, const std::string& folder, const SaveOptions& save, const Cancel* cancel,
                  onnx::WriteOptions& out) {
  TRY_ASSIGN(name, data_name(save));
  std::vector<const Weight*> outside;
  list_outside(*model.graph, save.smallest_outside, outside);
  if (outside.empty()) return {};
  TRY_ASSIGN(file, AtomicFile::create(folder + "/" + name, cancel));
  DataFile data(std::move(file), name);
  for (const Weight* w : outside) TRY(data.add(*w, out));
  return data.finish(out);
}

// Packs are made by a session of the saved model itself, so they are of what it says.
Status write_packs(const std::string& model, const std::string& path, const SessionOptions& options) {
  SessionOptions own = options;
  own.optimized_model_path.clear();
  own.external_files.clear();
  own.external_readers.clear();
  own.given_initializers.clear();
  own.strict_external_data = false;
  own.pack_cache_dir.clear();
  own.pack_file = "off";
  own.pack_strict = false;
  // These are of the model that was read.
  own.config.erase("session.load_model_format");
  own.config.erase("session.model_external_initializers_file_folder_path");
  TRY_ASSIGN(session, Session::open(model, own));
  TRY_ASSIGN(saved, save_packs(*session, path, false, options.cancel_load.get()));
  return {};
}

bool is_same_folder(const std::string& a, const std::string& b) {
  std::error_code ec;
  return !a.empty() && fs::equivalent(a, b, ec);
}

// References stay good if every file referred to is in the folder that the model is saved to.
bool can_keep_references(const std::string& folder, const std::string& target, const SessionOptions& options) {
  return is_same_folder(folder, target) && options.external_files.empty() && options.external_readers.empty() &&
         options.given_initializers.empty() &&
         !options.config.count("session.model_external_initializers_file_folder_path");
}

Status write_onnx(const Model& model, const std::string& folder, bool keep_references, AtomicFile& file,
                  const SessionOptions& options, const SaveOptions& save) {
  onnx::WriteOptions write;
  write.used_only = true;
  write.keep_references = keep_references;
  if (!save.data_file.empty()) TRY(write_data(model, folder, save, options.cancel_load.get(), write));
  TRY_ASSIGN(text, onnx::write_model(model, write));
  if (static_cast<int64_t>(text.size()) > kLargestModel)
    return invalid(
        "the model has {} bytes, {} is the most a file takes; name a file for its weights with "
        "session.optimized_model_external_initializers_file_name",
        text.size(), kLargestModel);
  return file.write(text.data(), text.size());
}

// Weights stay inside, where every reader of the format finds them, unless a file for them is named.
Status write_ort(const Model& model, const std::string& folder, AtomicFile& file, const SessionOptions& options,
                 const SaveOptions& save) {
  ort::WriteOptions write;
  write.extensions = true;
  write.cancel = options.cancel_load.get();
  write.external_least = save.smallest_outside;
  if (!save.data_file.empty()) {
    TRY_ASSIGN(name, data_name(save));
    write.external_file = name;
  }
  return ort::write_model(model, file, folder, write);
}

}  // namespace

Status save_optimised(const BytesPtr& bytes, ExternalData& external, const std::string& folder,
                      const SessionOptions& options, const SaveOptions& save) {
  const std::string& path = options.optimized_model_path;
  const std::string target = folder_of_new(path);
  TRY_ASSIGN(model, optimised(bytes, external, options, save));
  TRY_ASSIGN(file, AtomicFile::create(path, options.cancel_load.get()));
  TRY(save.as_ort ? write_ort(model, target, *file, options, save)
                  : write_onnx(model, target, can_keep_references(folder, target, options), *file, options, save));
  if (save.packs) TRY(write_packs(file->temporary(), path + ".pack", options));
  return file->finish();
}

Status save_as_asked(const BytesPtr& bytes, ExternalData& external, const std::string& folder,
                     const SessionOptions& options, std::vector<std::string>& warnings) {
  const auto value_of = [&](const char* key) {
    const auto it = options.config.find(key);
    return it == options.config.end() ? std::string() : it->second;
  };
  SaveOptions save;
  save.packs = value_of("session.save_external_prepacked_constant_initializers") == "1";
  const std::string& path = options.optimized_model_path;
  if (path.empty()) {
    if (save.packs)
      warnings.push_back(
          "session.save_external_prepacked_constant_initializers is ignored: no file for the optimised model is set");
    return {};
  }
  const std::string form = value_of("session.save_model_format");
  if (!form.empty() && form != "ORT" && form != "ONNX")
    return invalid("session.save_model_format is {}, wanted ONNX or ORT", quote(form));
  save.as_ort = form.empty() ? path.ends_with(".ort") : form == "ORT";
  if (save.packs && value_of("session.disable_prepacking") == "1") {
    warnings.push_back("session.save_external_prepacked_constant_initializers is ignored: packing is switched off");
    save.packs = false;
  }
  save.data_file = value_of("session.optimized_model_external_initializers_file_name");
  if (save.as_ort && !save.data_file.empty())
    warnings.push_back(format("{} keeps its weights in {}, which other runtimes do not look for with this format",
                              quote(path), quote(save.data_file)));
  if (const std::string least = value_of("session.optimized_model_external_initializers_min_size_in_bytes");
      !least.empty()) {
    const auto [end, ec] = std::from_chars(least.data(), least.data() + least.size(), save.smallest_outside);
    if (ec != std::errc() || end != least.data() + least.size() || save.smallest_outside < 0)
      return invalid("session.optimized_model_external_initializers_min_size_in_bytes is {}, wanted a number",
                     quote(least));
  }
  Status saved = save_optimised(bytes, external, folder, options, save);
  return saved.ok() ? std::move(saved) : std::move(saved).in(format("saving {}", quote(path)));
}

}  // namespace tessera
