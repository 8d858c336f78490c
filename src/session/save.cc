#include "session/save.h"

#include "base/file.h"

namespace tessera {

Status write_packs_of(const Plan& plan, const std::string& path, const Workers& workers) {
  std::vector<PackItem> items;
  plan.list_packs(items, workers);
  return write_pack_file(path, std::move(items), true, workers.cancel);
}

Result<SavedPacks> save_packs(const Session& session, const std::string& path, bool record_files,
                              const std::atomic<bool>* cancel) {
  std::vector<PackItem> items;
  session.loaded().plan->list_packs(items, {session.threads(), cancel});
  TRY(write_pack_file(path, std::move(items), record_files, cancel));
  TRY_ASSIGN(bytes, map_file(path));
  TRY_ASSIGN(packs, PackFile::read(bytes));
  return SavedPacks{static_cast<int64_t>(packs->entries().size()), static_cast<int64_t>(bytes->size())};
}

}  // namespace tessera
