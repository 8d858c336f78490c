#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <compare>
#include <map>
#include <mutex>

namespace tessera {
namespace {

Status errno_error(std::string_view what, std::string_view name) {
  const int e = errno;
  const Code code = e == ENOENT || e == ENOTDIR ? Code::no_such_file : Code::fail;
  return error(code, "{} {}: {}", what, quote(name), strerror(e));
}

// What tells one state of one file from every other.
struct FileState {
  dev_t device;
  ino_t inode;
  off_t size;
  int64_t written_at;
  auto operator<=>(const FileState&) const = default;

  static FileState of(const struct stat& st) {
    return {st.st_dev, st.st_ino, st.st_size, int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec};
  }
};

// What a mapping keeps of its file.
struct OpenFile {
  int fd;
  FileState state;
  uint64_t begin = 0;   // of the bytes in the file
  uint64_t before = 0;  // mapped bytes in front of them
};

std::shared_ptr<Bytes> mapped_bytes(void* data, size_t size, const OpenFile& of, std::string_view name) {
  auto bytes = std::make_shared<Bytes>(
      Bytes::Origin::mapped, data, size,
      [](void* p, size_t n, void* context) {
        auto* file = static_cast<OpenFile*>(context);
        if (p) munmap(static_cast<char*>(p) - file->before, n + file->before);
        close(file->fd);
        delete file;
      },
      new OpenFile(of), std::string(name));
  bytes->set_written_at(of.state.written_at);
  return bytes;
}

// The files this process has mapped.
class Mappings {
 public:
  static Mappings& all() {
    static Mappings* const one = new Mappings;  // never destroyed: mappings may outlive everything
    return *one;
  }
  std::shared_ptr<Bytes> find(const FileState& state) {
    std::lock_guard lock(mutex_);
    const auto it = files_.find(state);
    return it == files_.end() ? nullptr : it->second.lock();
  }
  // The given mapping, or the one that somebody else added first.
  std::shared_ptr<Bytes> add(const FileState& state, std::shared_ptr<Bytes> bytes) {
    std::lock_guard lock(mutex_);
    std::erase_if(files_, [](const auto& f) { return f.second.expired(); });
    std::weak_ptr<Bytes>& known = files_[state];
    if (std::shared_ptr<Bytes> first = known.lock()) return first;
    known = bytes;
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::map<FileState, std::weak_ptr<Bytes>> files_;
};

// Takes over fd.
Result<std::shared_ptr<Bytes>> map_fd(int fd, std::string_view name, bool strict) {
  struct stat st;
  if (fstat(fd, &st) != 0) {
    Status s = errno_error("cannot inspect", name);
    close(fd);
    return s;
  }
  if (!S_ISREG(st.st_mode) || (strict && st.st_nlink > 1)) {
    close(fd);
    return error(Code::fail, "cannot use {}: it is not a {}regular file", quote(name), strict ? "singly linked " : "");
  }
  const FileState state = FileState::of(st);
  if (std::shared_ptr<Bytes> known = Mappings::all().find(state)) {
    close(fd);
    return known;
  }
  const auto size = static_cast<size_t>(st.st_size);
  void* data = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  if (data == MAP_FAILED) {
    Status failed = errno_error("cannot map", name);
    close(fd);
    return failed;
  }
  return Mappings::all().add(state, mapped_bytes(data, size, {fd, state}, name));
}

// True if the name leads out of its folder whatever exists there: absolute, or more ".." than folders before them.
bool leaves_by_name(std::string_view name) {
  if (name[0] == '/') return true;
  int depth = 0;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == ".." && --depth < 0) return true;
    if (!part.empty() && part != "." && part != "..") ++depth;
    begin = end + 1;
  }
  return false;
}

// Without openat2 (old kernels, strict sandboxes): walk the components, following no link.
int open_by_walking(int folder, const std::string& name) {
  int at = dup(folder);
  size_t begin = 0;
  while (at >= 0 && begin <= name.size()) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool last = end == name.size();
    if (part.empty() || part == ".") {
      if (last) break;
      begin = end + 1;
      continue;
    }
    int next = -1;
    if (part == "..")
      errno = EXDEV;
    else
      next = openat(at, part.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    const int e = errno;
    close(at);
    errno = e;
    at = next;
    if (last) break;
    begin = end + 1;
  }
  return at;
}

// A file beneath a folder, links resolved by the kernel unless `strict` refuses them; -1 and errno.
int open_beneath(int folder, const std::string& name, bool strict) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (strict ? RESOLVE_NO_SYMLINKS : 0);
  const int fd = static_cast<int>(syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how));
  return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_by_walking(folder, name) : fd;
}

// Where an open file lies; empty if the system does not tell.
std::string path_of(int fd) {
  char path[PATH_MAX];
  const ssize_t n = readlink(format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  return n > 0 && n < static_cast<ssize_t>(sizeof path) ? std::string(path, static_cast<size_t>(n)) : "";
}

}  // namespace

Result<std::shared_ptr<Folder>> Folder::open(const std::string& path, const std::string& home) {
  const int fd = ::open(path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error("cannot open folder", path);
  const int other = home.empty() ? -1 : ::open(home.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return std::shared_ptr<Folder>(new Folder(fd, other, path));
}

Folder::~Folder() {
  close(fd_);
  if (home_ >= 0) close(home_);
}

// What the link `name` leads to, if that lies beneath the folder or beneath home; else -1 and errno. The name is
// resolved twice: the second time beneath one of them and without links, so that whoever changes it in between gains
// nothing.
int Folder::open_linked(const std::string& name) const {
  const int target = openat(fd_, name.c_str(), O_PATH | O_CLOEXEC);
  if (target < 0) return -1;
  const std::string file = path_of(target);
  close(target);
  for (const int root : {fd_, home_}) {
    const std::string folder = path_of(root) + "/";
    if (folder.size() > 1 && file.size() > folder.size() && file.compare(0, folder.size(), folder) == 0)
      return open_beneath(root, file.substr(folder.size()), true);
  }
  errno = EXDEV;
  return -1;
}

Result<std::shared_ptr<Bytes>> Folder::map(std::string_view name, bool strict) const {
  if (name.empty()) return error(Code::fail, "an empty file name was given");
  if (name.find('\0') != name.npos || name.find('\\') != name.npos || name.size() > PATH_MAX)
    return error(Code::fail, "file name {} is not a plain relative path", quote(name));
  const auto leaves = [&] {
    return error(Code::fail, "External data path validation failed: file {} leaves the model's folder {}", quote(name),
                 quote(path_));
  };
  if (leaves_by_name(name)) return leaves();
  const std::string path(name);
  int fd = open_beneath(fd_, path, strict);
  if (fd < 0 && home_ >= 0 && errno == ENOENT) fd = open_beneath(home_, path, strict);
  if (fd < 0 && home_ >= 0 && !strict && (errno == EXDEV || errno == ELOOP)) fd = open_linked(path);
  if (fd < 0 && (errno == EXDEV || errno == ELOOP)) return leaves();
  if (fd < 0) return errno_error("cannot open", name);
  return map_fd(fd, name, strict);
}

Result<std::shared_ptr<Bytes>> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_error("cannot open", path);
  return map_fd(fd, path, false);
}

Result<std::shared_ptr<Bytes>> map_descriptor(int fd, uint64_t offset, uint64_t size, std::string_view name) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno_error("cannot inspect", name);
  if (!S_ISREG(st.st_mode)) return error(Code::fail, "cannot use {}: it is not a regular file", quote(name));
  const auto whole = static_cast<uint64_t>(st.st_size);
  if (offset > whole || size > whole - offset)
    return error(Code::fail, "file {} has {} bytes, wanted {} at offset {}", quote(name), whole, size, offset);
  const uint64_t before = offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return errno_error("cannot keep open", name);
  void* data = size ? mmap(nullptr, static_cast<size_t>(size + before), PROT_READ, MAP_PRIVATE, own,
                           static_cast<off_t>(offset - before))
                    : nullptr;
  if (data == MAP_FAILED) {
    Status failed = errno_error("cannot map", name);
    close(own);
    return failed;
  }
  if (data) data = static_cast<char*>(data) + before;
  return mapped_bytes(data, static_cast<size_t>(size), {own, FileState::of(st), offset, before}, name);
}

Result<BytesPtr> detached(const BytesPtr& bytes) {
  if (bytes->origin() != Bytes::Origin::mapped) return bytes;
  const auto* file = static_cast<const OpenFile*>(bytes->context());
  TRY_ASSIGN(copy, allocate_bytes(bytes->size()));
  for (size_t done = 0; done < bytes->size();) {
    // Mapped ranges of a descriptor begin somewhere inside the file; all others at 0.
    const ssize_t n = pread(file->fd, copy->data() + done, std::min<size_t>(bytes->size() - done, 1u << 30),
                            static_cast<off_t>(file->begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("cannot read", bytes->label());
    if (n == 0) return error(Code::fail, "the file {} was cut off while it was read", quote(bytes->label()));
    done += static_cast<size_t>(n);
  }
  copy->set_written_at(bytes->written_at());
  return BytesPtr(std::move(copy));
}

Status check_unchanged(const Bytes& bytes) {
  if (bytes.origin() != Bytes::Origin::mapped) return {};
  const auto* file = static_cast<const OpenFile*>(bytes.context());
  struct stat st;
  if (fstat(file->fd, &st) == 0 && FileState::of(st) == file->state) return {};
  return error(Code::fail, "the file {} was changed after it was opened; open the model again", quote(bytes.label()));
}

void drop_pages(const ByteRange& range) {
  if (!range.source || range.source->origin() != Bytes::Origin::mapped) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + range.length) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void expect(const ByteRange& range, Reading reading) {
  if (!range.source || range.source->origin() != Bytes::Origin::mapped || range.length == 0) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t begin = first / page * page;
  auto* at = reinterpret_cast<void*>(begin);
  const size_t size = static_cast<size_t>(range.length) + (first - begin);
  madvise(at, size, reading == Reading::alone ? MADV_RANDOM : MADV_NORMAL);
}

std::string plain_name(std::string_view name) {
  std::string out;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part != ".") out += (out.empty() ? "" : "/") + std::string(part);
    begin = end + 1;
  }
  return out;
}

std::string folder_of(const std::string& path) {
  std::string real = path;
  if (char* resolved = realpath(path.c_str(), nullptr)) {
    real = resolved;
    free(resolved);
  }
  const size_t slash = real.rfind('/');
  return slash == real.npos ? "." : slash == 0 ? "/" : real.substr(0, slash);
}

std::string folder_of_new(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path, const std::atomic<bool>* cancel) {
  static std::atomic<unsigned> serial{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = format("{}.tmp-{}-{}", path, static_cast<int64_t>(getpid()), serial++);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) return std::unique_ptr<AtomicFile>(new AtomicFile(fd, path, std::move(temporary), cancel));
    if (errno != EEXIST) break;
  }
  return errno_error("cannot create", path);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

Status AtomicFile::write(const void* data, size_t size) {
  constexpr size_t kPiece = 4u << 20;  // between two looks at the flag
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    if (cancel_ && cancel_->load(std::memory_order_relaxed))
      return error(Code::canceled, "writing {} was cancelled", quote(path_));
    const ssize_t n = ::write(fd_, next, std::min(size, kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error("cannot write", path_);
    next += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status AtomicFile::finish() {
  if (fsync(fd_) != 0) return errno_error("cannot write", path_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return errno_error("cannot name", path_);
  close(fd_);
  fd_ = -1;
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
  if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return {};
}

Status write_file(const std::string& path, std::string_view content) {
  TRY_ASSIGN(file, AtomicFile::create(path));
  TRY(file->write(content.data(), content.size()));
  return file->finish();
}

}  // namespace tessera
