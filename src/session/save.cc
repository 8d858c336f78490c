#include "session/save.h"

#include "base/file.h"

namespace tessera {

Result<SavedPacks> save_packs(const Session& session, const std::string& path) {
  std::vector<PackItem> items;
  session.loaded().plan->list_packs(items, session.threads());
  TRY(write_pack_file(path, std::move(items)));
  TRY_ASSIGN(bytes, map_file(path));
  TRY_ASSIGN(packs, PackFile::read(bytes));
  return SavedPacks{static_cast<int64_t>(packs->entries().size()), static_cast<int64_t>(bytes->size())};
}

}  // namespace tessera
