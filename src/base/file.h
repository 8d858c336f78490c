// Files: opened beneath a folder, mapped read-only, written atomically. The only place that calls open().
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace tessera {

// An open folder. Names given to it are resolved by the kernel and cannot leave it: no "..", no absolute path, no link
// that points outside (links inside are fine).
class Folder {
 public:
  // `home`, if not empty, is the folder in which the model itself lies where `path` holds a link to it: files may be
  // there too, and links may lead there.
  static Result<std::shared_ptr<Folder>> open(const std::string& path, const std::string& home = {});
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Maps a regular file beneath this folder. `strict` also refuses links of any kind.
  Result<std::shared_ptr<Bytes>> map(std::string_view name, bool strict = false) const;
  const std::string& path() const { return path_; }

 private:
  Folder(int fd, int home, std::string path) : fd_(fd), home_(home), path_(std::move(path)) {}
  int open_linked(const std::string& name) const;
  int fd_, home_;  // home_ is -1 if there is none
  std::string path_;
};

// Mapping a file that this process has mapped already, and that has not changed since, gives the same Bytes.

// Maps a file the user named: any path.
Result<std::shared_ptr<Bytes>> map_file(const std::string& path);
// Maps `size` bytes of an open regular file from `offset` on. The descriptor stays the caller's.
Result<std::shared_ptr<Bytes>> map_descriptor(int fd, uint64_t offset, uint64_t size, std::string_view name);
// The content of mapped bytes in memory of our own, which no change of the file can touch. Other bytes as they are.
Result<BytesPtr> detached(const BytesPtr& bytes);
// An error if the file behind mapped bytes was written to or cut off after it was mapped: its pages may be gone. A file
// that was replaced by another of the same name is still there.
Status check_unchanged(const Bytes& bytes);
// Tells the system that the pages of a mapped range will not be read soon: they leave this process's memory.
void drop_pages(const ByteRange& range);
// How a mapped range is going to be read: alone, a page when it is touched and none around it; or as the system sees
// fit, which is how every range begins.
enum class Reading { alone, usual };
void expect(const ByteRange& range, Reading reading);
// The name of a file in a folder without what says nothing: "a/b" for "./a//b".
std::string plain_name(std::string_view name);
// The folder part of `path` after resolving a link at its end ("." if there is none).
std::string folder_of(const std::string& path);
// The folder part of `path` as it is spelled.
std::string folder_of_new(const std::string& path);

// A file that appears under its final name only when finish() succeeds; destroying it earlier leaves nothing behind.
class AtomicFile {
 public:
  // Writing ends with an error soon after *cancel is set; it may be null.
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path, const std::atomic<bool>* cancel = nullptr);
  ~AtomicFile();
  Status write(const void* data, size_t size);
  Status finish();
  // Where the content is until then.
  const std::string& temporary() const { return temporary_; }

 private:
  AtomicFile(int fd, std::string path, std::string temporary, const std::atomic<bool>* cancel)
      : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)), cancel_(cancel) {}
  int fd_;
  std::string path_, temporary_;
  const std::atomic<bool>* cancel_;
};

Status write_file(const std::string& path, std::string_view content);

}  // namespace tessera
