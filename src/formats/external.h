// Where external data comes from: buffers the caller handed over by file name first, then the model's folder. One
// function decides for dense, sparse, attribute and subgraph tensors alike.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/file.h"

namespace tessera {

class ExternalData {
 public:
  // folder may be null: then only buffers are looked at.
  explicit ExternalData(std::shared_ptr<Folder> folder = nullptr) : folder_(std::move(folder)) {}

  void add_buffer(std::string_view name, BytesPtr bytes);
  // Refuse the file system even where there is a folder.
  void forbid_files() { files_allowed_ = false; }
  // Refuse links of any kind.
  void strict_links() { strict_ = true; }

  Result<BytesPtr> open(std::string_view location);
  const Counters& counters() const { return counters_; }

 private:
  std::shared_ptr<Folder> folder_;
  std::map<std::string, BytesPtr, std::less<>> buffers_, files_;
  bool files_allowed_ = true, strict_ = false;
  Counters counters_;
};

}  // namespace tessera
