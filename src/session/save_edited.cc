#include "formats/onnx/writer.h"
#include "session/edit_model.h"

namespace tessera {
namespace {

constexpr int64_t kSmallestOutside = 1024;  // bytes of a weight that stays where it is

// Memory under names that no file of a client has.
class Files {
 public:
  explicit Files(std::map<std::string, BytesPtr>& files) : files_(files) {}
  const std::string& name_of(const BytesPtr& bytes) {
    const auto [known, is_new] = names_.try_emplace(bytes.get());
    if (is_new) {
      known->second = format("tessera.edited.{}", names_.size());
      files_[known->second] = bytes;
    }
    return known->second;
  }

 private:
  std::map<std::string, BytesPtr>& files_;
  std::map<const Bytes*, std::string> names_;
};

}  // namespace

Result<BytesPtr> write_edited(const Model& model, std::map<std::string, BytesPtr>& files) {
  Files named(files);
  onnx::WriteOptions options;
  options.keep_references = false;
  const ir::Graph& graph = *model.graph;
  for (ir::ValueId id = 0; id < graph.values().size(); ++id) {
    const Weight* w = graph.weight_of(id);
    if (!w || w->sparse || w->dtype == DType::string || w->bytes() < kSmallestOutside) continue;
    const BytesPtr& bytes = w->range.source ? w->range.source : w->decoded.storage();
    const uint64_t offset = w->range.source ? w->range.offset : w->decoded.offset();
    if (bytes) options.places[w] = {named.name_of(bytes), offset, {}};
  }
  TRY_ASSIGN(text, onnx::write_model(model, options));
  auto kept = std::make_unique<std::string>(std::move(text));
  const auto release = [](void*, size_t, void* held) { delete static_cast<std::string*>(held); };
  auto bytes = std::make_shared<Bytes>(Bytes::Origin::borrowed, kept->data(), kept->size(), release, kept.get());
  kept.release();
  return BytesPtr(std::move(bytes));
}

}  // namespace tessera
