#include "session/save.h"

#include "base/file.h"

namespace tessera {

Status write_packs_of(const Plan& plan, const std::string& path, int threads) {
  std::vector<PackItem> items;
  plan.list_packs(items, threads);
  return write_pack_file(path, std::move(items));
}

Result<SavedPacks> save_packs(const Session& session, const std::string& path, bool record_files) {
  std::vector<PackItem> items;
  session.loaded().plan->list_packs(items, session.threads());
  TRY(write_pack_file(path, std::move(items), record_files));
  TRY_ASSIGN(bytes, map_file(path));
  TRY_ASSIGN(packs, PackFile::read(bytes));
  return SavedPacks{static_cast<int64_t>(packs->entries().size()), static_cast<int64_t>(bytes->size())};
}

}  // namespace tessera
