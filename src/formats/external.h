// Where external data comes from: buffers the caller handed over by file name first, then the model's folder. One
// function decides for dense, sparse, attribute and subgraph tensors alike.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/file.h"
#include "core/tensor.h"

namespace tessera {

class ExternalData {
 public:
  // folder may be null: then only buffers are looked at.
  explicit ExternalData(std::shared_ptr<Folder> folder = nullptr) : folder_(std::move(folder)) {}

  // Files by name; one that was added before, be it as "./name", is refused.
  Status add_buffer(std::string_view name, BytesPtr bytes);
  // Refuse the file system even where there is a folder.
  void forbid_files() { files_allowed_ = false; }
  // Refuse links of any kind.
  void strict_links() { strict_ = true; }

  // A file that is read piece by piece: read(offset, length, to).
  using Read = std::function<Status(uint64_t offset, size_t length, void* to)>;
  Status add_reader(std::string_view name, uint64_t size, Read read);
  // Hold the content of files in memory, so that nobody who cuts them off can hurt a run.
  void copy_files() { copy_ = true; }
  // Takes the place of an initializer of the main graph, whose own data is not looked at. A required one must be there.
  void give(std::string name, Tensor tensor, bool required);
  // The tensor given for an initializer, or null.
  const Tensor* given(std::string_view name);
  // An error that names a required tensor nobody asked for.
  Status check_given() const;

  // `size` bytes of a file from `offset` on.
  Result<ByteRange> range(std::string_view location, uint64_t offset, uint64_t size);
  const Counters& counters() const { return counters_; }

 private:
  struct Reader {
    uint64_t size;
    Read read;
  };
  struct Given {
    Tensor tensor;
    bool required, used = false;
  };
  Status check_new(const std::string& name) const;
  Result<BytesPtr> open(std::string_view location, const std::string& name);

  std::shared_ptr<Folder> folder_;
  std::map<std::string, BytesPtr, std::less<>> buffers_, files_;
  std::map<std::string, Reader, std::less<>> readers_;
  std::map<std::string, Given, std::less<>> given_;
  bool files_allowed_ = true, strict_ = false, copy_ = false;
  Counters counters_;
};

}  // namespace tessera
