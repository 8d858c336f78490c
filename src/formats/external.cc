#include "formats/external.h"

#include "base/checked.h"

namespace tessera {
Status ExternalData::check_new(const std::string& name) const {
  if (!buffers_.count(name) && !readers_.count(name)) return {};
  return invalid("An entry for this name has already been added: external data {} is given twice", quote(name));
}

Status ExternalData::add_buffer(std::string_view name, BytesPtr bytes) {
  const std::string plain = plain_name(name);
  TRY(check_new(plain));
  buffers_[plain] = std::move(bytes);
  return {};
}

Status ExternalData::add_reader(std::string_view name, uint64_t size, Read read) {
  const std::string plain = plain_name(name);
  TRY(check_new(plain));
  readers_[plain] = {size, std::move(read)};
  return {};
}

void ExternalData::give(std::string name, Tensor tensor, bool required) {
  given_[std::move(name)] = {std::move(tensor), required};
}

const Tensor* ExternalData::given(std::string_view name) {
  const auto it = given_.find(name);
  if (it == given_.end()) return nullptr;
  it->second.used = true;
  return &it->second.tensor;
}

Status ExternalData::check_given() const {
  for (const auto& [name, given] : given_)
    if (given.required && !given.used) return invalid("the model has no initializer {}", quote(name));
  return {};
}

Result<BytesPtr> ExternalData::open(std::string_view location, const std::string& name) {
  if (const auto it = buffers_.find(name); it != buffers_.end()) return it->second;
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  if (!folder_ || !files_allowed_)
    return error(Code::fail,
                 "external data {} was not handed over as a buffer, and {}; add the file to the session options or "
                 "load the model from its path",
                 quote(location), folder_ ? "reading files is forbidden" : "a model loaded from memory has no folder");
  TRY_ASSIGN(mapped, folder_->map(location, strict_));
  BytesPtr bytes = std::move(mapped);
  if (copy_) {
    TRY_ASSIGN(own, detached(bytes));
    counters_.bytes_copied += static_cast<int64_t>(own->size());
    bytes = std::move(own);
  } else {
    counters_.bytes_mapped += static_cast<int64_t>(bytes->size());
  }
  return files_[std::string(location)] = std::move(bytes);
}

Result<ByteRange> ExternalData::range(std::string_view location, uint64_t offset, uint64_t size) {
  if (location.empty()) return error(Code::fail, "external data has no location");
  const std::string name = plain_name(location);
  const auto check = [&](uint64_t have) -> Status {
    if (range_inside(offset, size, have)) return {};
    return error(Code::fail, "external data {} has {} bytes, wanted {} at offset {}", quote(location), have, size,
                 offset);
  };
  if (const auto it = readers_.find(name); it != readers_.end()) {
    TRY(check(it->second.size));
    TRY_ASSIGN(bytes, allocate_bytes(static_cast<size_t>(size)));
    if (size) TRY(it->second.read(offset, static_cast<size_t>(size), bytes->data()));
    counters_.bytes_copied += static_cast<int64_t>(size);
    return ByteRange{std::move(bytes), 0, size};
  }
  TRY_ASSIGN(bytes, open(location, name));
  TRY(check(bytes->size()));
  return ByteRange{std::move(bytes), offset, size};
}

}  // namespace tessera
