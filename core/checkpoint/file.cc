// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace shampoo {
namespace {

const char* NextStep(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free some space, or raise the quota or the file size limit, and try again";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a directory that this process may use";
    case ENOENT:
    case ENOTDIR:
      return "; check the path, and whether its parent directory exists";
    case EMFILE:
    case ENFILE:
      return "; close files, or raise the limit of open files (ulimit -n), and try again";
    case EIO:
      return "; check the disk and its connection";
    default:
      return "; check the path and its file system";
  }
}

Status Failed(const char* tried, const std::string& path, int error) {
  return IoFailed("cannot ", tried, " ", path, ": ", std::generic_category().message(error), NextStep(error));
}

// Repeats a call as long as a signal interrupts it.
template <typename Call>
auto Retry(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

Status OpenWith(const std::string& path, int flags, const char* tried, int* fd) {
  *fd = Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); });
  return *fd >= 0 ? Status() : Failed(tried, path, errno);
}

// Returns the kind of a file that is not a regular file.
const char* KindName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "of another kind";
}

Status NotRegular(const std::string& path, mode_t mode) {
  return IoFailed(path, " is not a regular file, it is ", KindName(mode),
                  "; expected a file that a save wrote. Load another checkpoint or restore the file");
}

// Opens a regular file, and fails for files of other kinds: a device might return endless data. Without O_NONBLOCK,
// opening a FIFO would wait for a writer.
Status OpenRegular(const std::string& path, int* fd) {
  *fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  // EWOULDBLOCK means that another process has a lease on the file. The second open() waits until the lease is
  // released. It cannot wait for the writer of a FIFO, because only regular files can have a lease.
  if (*fd < 0 && errno == EWOULDBLOCK) *fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  struct stat info;
  if (*fd < 0) {
    const int error = errno;
    const bool is_socket = error == ENXIO && stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
    return is_socket ? NotRegular(path, info.st_mode) : Failed("open", path, error);
  }
  if (fstat(*fd, &info) != 0) return Failed("stat", path, errno);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  // Clears O_NONBLOCK, because some file systems apply it to regular files, too.
  return fcntl(*fd, F_SETFL, 0) == 0 ? Status() : Failed("open", path, errno);
}

// Syncs an open file or directory. Returns 0 on success, otherwise errno.
int SyncFd(int fd) {
  return Retry([fd] { return fsync(fd); }) == 0 ? 0 : errno;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) close(fd_);
}

Status File::Open(const std::string& path, File* out) {
  File file;
  file.path_ = path;
  SHAMPOO_RETURN_IF_ERROR(OpenRegular(path, &file.fd_));
  *out = std::move(file);
  return {};
}

Status File::Create(const std::string& path, File* out) {
  File file;
  file.path_ = path;
  SHAMPOO_RETURN_IF_ERROR(OpenWith(path, O_RDWR | O_CREAT | O_TRUNC, "create", &file.fd_));
  *out = std::move(file);
  return {};
}

Status File::Size(int64_t* bytes) const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return Failed("stat", path_, errno);
  *bytes = info.st_size;
  return {};
}

Status File::ReadAt(int64_t at, void* data, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        Retry([&] { return pread(fd_, static_cast<char*>(data) + done, bytes - done, at + static_cast<off_t>(done)); });
    if (got < 0) return Failed("read", path_, errno);
    if (got == 0) {
      return IoFailed(path_, " ends at byte ", at + static_cast<int64_t>(done), ": expected ",
                      at + static_cast<int64_t>(bytes), " bytes or more; it was truncated", kLoadAnother);
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

void File::StartReading(int64_t at, int64_t bytes) const {
  (void)posix_fadvise(fd_, at, bytes, POSIX_FADV_WILLNEED);  // only a hint; ReadAt reports failures
}

Status File::WriteAt(int64_t at, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put = Retry([&] {
      return pwrite(fd_, static_cast<const char*>(data) + done, bytes - done, at + static_cast<off_t>(done));
    });
    if (put < 0) return Failed("write", path_, errno);
    if (put == 0) return Failed("write", path_, ENOSPC);
    done += static_cast<size_t>(put);
  }
  return {};
}

void File::StartWriting(int64_t at, int64_t bytes) {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)sync_file_range(fd_, at, bytes, SYNC_FILE_RANGE_WRITE);  // only a hint; Sync reports failures
#else
  (void)at, (void)bytes;
#endif
}

Status File::Sync() {
  const int error = SyncFd(fd_);
  return error == 0 ? Status() : Failed("sync", path_, error);
}

Status File::Close() {
  const int fd = std::exchange(fd_, -1);
  // On Linux, the descriptor is closed even if close() fails with EINTR.
  return close(fd) == 0 || errno == EINTR ? Status() : Failed("close", path_, errno);
}

std::string PathIn(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

Status KindOf(const std::string& path, PathKind* kind) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    *kind = S_ISDIR(info.st_mode) ? PathKind::kDirectory : PathKind::kFile;
    return {};
  }
  if (errno != ENOENT && errno != ENOTDIR) return Failed("stat", path, errno);
  *kind = PathKind::kNothing;
  return {};
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) {
    // Make the new directory durable by syncing its parent, if the parent can be opened.
    const size_t slash = path.find_last_of('/', path.find_last_not_of('/'));
    (void)SyncDirectory(slash == std::string::npos ? "." : path.substr(0, slash + 1)).ok();
    return {};
  }
  if (errno != EEXIST) return Failed("make the directory", path, errno);
  PathKind kind = PathKind::kNothing;
  SHAMPOO_RETURN_IF_ERROR(KindOf(path, &kind));
  if (kind == PathKind::kDirectory) return {};
  return Failed("make the directory", path, kind == PathKind::kFile ? ENOTDIR : ENOENT);
}

Status ListDirectory(const std::string& path, std::vector<std::string>* names) {
  names->clear();
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
  if (directory == nullptr) return Failed("list the directory", path, errno);
  errno = 0;
  while (const dirent* const entry = readdir(directory.get())) {
    names->emplace_back(entry->d_name);
    errno = 0;
  }
  return errno == 0 ? Status() : Failed("list the directory", path, errno);
}

Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? Status() : Failed("rename the file", from, errno);
}

Status Remove(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : Failed("remove", path, errno);
}

Status SyncDirectory(const std::string& path) {
  int fd = -1;
  SHAMPOO_RETURN_IF_ERROR(OpenWith(path, O_RDONLY | O_DIRECTORY, "open the directory", &fd));
  const int error = SyncFd(fd);
  close(fd);
  // Some file systems cannot sync directories.
  const bool not_for_directories = error == EINVAL || error == ENOTSUP;
  return error == 0 || not_for_directories ? Status() : Failed("sync", path, error);
}

}  // namespace shampoo
