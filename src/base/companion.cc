#include "base/companion.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <fstream>

namespace tessera {
namespace {

// Something that lies in the library or program that contains this code.
const char kHere = 0;

// The file that the system mapped at `address`, from the process's own list.
std::string mapped_file(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 || at < begin || at >= end) continue;
    const size_t path = line.find('/');
    return path == std::string::npos ? std::string() : line.substr(path);
  }
  return {};
}

// The folder of the library or program that contains this code, absolute; empty if the system does not say. The loader
// knows libraries by the name they were opened with, and programs by none.
std::string own_folder() {
  Dl_info info;
  link_map* map = nullptr;
  std::string path;
  if (dladdr1(&kHere, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) && map && map->l_name) path = map->l_name;
  if (path.empty() || path[0] != '/') path = mapped_file(&kHere);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

Result<const void*> Companion::table() {
  if (const void* t = table_.load(std::memory_order_acquire)) return t;
  const std::lock_guard lock(mutex_);
  if (const void* t = table_.load(std::memory_order_relaxed)) return t;
  TRY_ASSIGN(t, open());
  table_.store(t, std::memory_order_release);
  return t;
}

Result<const void*> Companion::open() const {
  const std::string folder = own_folder();
  if (folder.empty()) return error(Code::no_such_file, "{}: the folder of this library is not known", file_);
  for (const std::string& candidate : {folder + "/" + file_, folder + "/../lib/" + file_}) {
    if (access(candidate.c_str(), F_OK) != 0) continue;
    void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* why = dlerror();
      return error(Code::fail, "{} cannot be opened: {}", candidate, why ? why : "no reason given");
    }
    using Entry = const void*(uint32_t);
    auto* entry = reinterpret_cast<Entry*>(dlsym(library, symbol_));
    const void* table = entry ? entry(version_) : nullptr;
    if (table) return table;
    dlclose(library);
    return error(Code::fail, "{} does not offer version {} of {}: it belongs to another release", candidate, version_,
                 symbol_);
  }
  return error(Code::no_such_file,
               "{} is neither in {} nor in {}/../lib; a build with TESSERA_COMPANIONS=ON makes it (Debian: {})", file_,
               folder, folder, packages_);
}

}  // namespace tessera
