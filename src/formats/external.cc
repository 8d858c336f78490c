#include "formats/external.h"

namespace tessera {
namespace {

// "./a//b" and "a/b" name the same file.
std::string plain(std::string_view name) {
  std::string out;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part != ".") out += (out.empty() ? "" : "/") + std::string(part);
    begin = end + 1;
  }
  return out;
}

}  // namespace

void ExternalData::add_buffer(std::string_view name, BytesPtr bytes) { buffers_[plain(name)] = std::move(bytes); }

Result<BytesPtr> ExternalData::open(std::string_view location) {
  const std::string name = plain(location);
  if (location.empty()) return error(Code::fail, "external data has no location");
  if (const auto it = buffers_.find(name); it != buffers_.end()) return it->second;
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  if (!folder_ || !files_allowed_)
    return error(Code::fail,
                 "external data {} was not handed over as a buffer, and {}; add the file to the session options or "
                 "load the model from its path",
                 quote(location), folder_ ? "reading files is forbidden" : "a model loaded from memory has no folder");
  TRY_ASSIGN(bytes, folder_->map(location, strict_));
  counters_.bytes_mapped += static_cast<int64_t>(bytes->size());
  return files_[std::string(location)] = std::move(bytes);
}

}  // namespace tessera
