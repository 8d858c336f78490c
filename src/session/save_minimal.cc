// In the place of save.cc where a library writes nothing.
#include "session/edit_model.h"
#include "session/load.h"

namespace tessera {

Status save_as_asked(const BytesPtr&, ExternalData&, const std::string&, const SessionOptions& options,
                     std::vector<std::string>&) {
  if (options.optimized_model_path.empty()) return {};
  return not_implemented("this library is built without writing models");
}

Result<BytesPtr> write_edited(const Model&, std::map<std::string, BytesPtr>&) {
  return not_implemented("this library is built without making models; use the full library");
}

Status write_packs_of(const Plan&, const std::string&, const Workers&) {
  return not_implemented("this library is built without writing pack files");
}

}  // namespace tessera
