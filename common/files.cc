#include "common/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/log.h"
#include "common/one_line.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

absl::Status ErrnoStatus(int error, const std::string& what, const std::string& path) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
  // ESTALE passes once a share is mounted anew; abseil maps it to a conflict, which callers do not
  // retry.
  return error == ESTALE ? absl::UnavailableError(status.message()) : status;
}

absl::Status ErrorCodeStatus(const std::error_code& error, const std::string& what,
                             const std::string& path) {
  return ErrnoStatus(error.value(), what, path);
}

// Repeats a system call interrupted by a signal.
template <class Call>
auto NoInterrupt(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Warns once. Training goes on, since only a loss of power can lose the data.
void WarnOfNoSync(const std::string& path, int error) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  Logger("files").Warn(
      "the file system of {} cannot sync it ({}): if this machine or the storage loses its power, "
      "what was written last may be lost with it. This is said once",
      path, std::strerror(error));
}

absl::Status CheckLocal(const std::string& path) {
  const std::string scheme = SchemeOf(path);
  if (scheme.empty()) return absl::OkStatus();
  if (scheme == "file") {
    return absl::InvalidArgumentError(absl::StrCat(path, ": give the path alone, without file://"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": there is no way from here to storage behind ", scheme,
                   "://: give a path in a file system, such as a directory that all hosts mount"));
}

constexpr uint64_t kWholeBytesMax = uint64_t{1} << 30;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class PosixReadFile : public ReadFile {
 public:
  PosixReadFile(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}
  uint64_t size() const override { return size_; }

  // Includes the inode's change time, because nobody can set it back, and leaves out the device,
  // because shared storage has another device number on every host.
  std::string identity() const override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return "";
    return absl::StrCat(info.st_size, " ", info.st_ino, " ", info.st_mtim.tv_sec, ".",
                        info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    FAILPOINT_STATUS("files.read");
    while (!out.empty()) {
      const ssize_t n = NoInterrupt(
          [&] { return ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
      if (n < 0) return ErrnoStatus(errno, "cannot read", path_);
      if (n == 0) {
        return absl::OutOfRangeError(
            absl::StrCat(path_, " ends at byte ", offset, ", ", out.size(), " bytes early"));
      }
      offset += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

 private:
  const Descriptor fd_;
  const uint64_t size_;
  const std::string path_;
};

class PosixWriteFile : public WriteFile {
 public:
  PosixWriteFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  absl::Status Append(std::string_view bytes) override {
    if (!error_.ok()) return error_;
    error_ = Write(bytes);
    return error_;
  }

  // After a failed sync the kernel may mark the lost pages clean; the error is kept for good.
  absl::Status Sync() override {
    if (!error_.ok()) return error_;
    error_ = SyncOnce();
    return error_;
  }

 private:
  absl::Status Write(std::string_view bytes) {
    FAILPOINT_STATUS("files.write");
    while (!bytes.empty()) {
      const ssize_t n = NoInterrupt([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (n < 0) return ErrnoStatus(errno, "cannot write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status SyncOnce() {
    FAILPOINT_STATUS("files.sync");
    if (::fsync(fd_.get()) == 0) return absl::OkStatus();
    if (!IsUnknownToFileSystem(errno)) return ErrnoStatus(errno, "cannot sync", path_);
    WarnOfNoSync(path_, errno);
    return absl::OkStatus();
  }

  const Descriptor fd_;
  const std::string path_;
  absl::Status error_;
};

std::string Parent(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace

bool IsUnknownToFileSystem(int error) {
  return error == EINVAL || error == ENOTSUP || error == ENOSYS || error == ENOTTY;
}

std::string SchemeOf(const std::string& path) {
  const size_t length = path.find("://");
  if (length == std::string::npos || length == 0) return "";
  const std::string scheme = path.substr(0, length);
  const bool letters = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
  });
  return letters && absl::ascii_isalpha(static_cast<unsigned char>(scheme[0])) ? scheme : "";
}

std::string PathIn(const std::string& base, const std::string& path) {
  if (!SchemeOf(path).empty()) return path;
  const size_t scheme = SchemeOf(base).size();
  if (scheme == 0 || path.starts_with("/")) {
    return (std::filesystem::path(base) / path).lexically_normal().string();
  }
  const std::string start = base.substr(0, scheme + 2);  // "s3:/"
  return start +
         (std::filesystem::path(base.substr(scheme + 2)) / path).lexically_normal().string();
}

std::string AbsolutePath(const std::string& path) {
  if (!SchemeOf(path).empty()) {
    std::string text = path;
    while (text.ends_with('/') && !text.ends_with("://")) text.pop_back();
    return text;
  }
  std::error_code gone;
  std::filesystem::path whole = std::filesystem::absolute(path, gone);
  if (gone) whole = path;
  std::string text = whole.lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<std::string> Files::ReadWhole(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, Open(path));
  if (file->size() > kWholeBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", file->size(), " bytes; at most ", kWholeBytesMax, " are read"));
  }
  std::string contents(file->size(), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, contents));
  return contents;
}

absl::Status Files::AbandonUnfinished(const std::string&) { return absl::OkStatus(); }

namespace {

absl::Status LeadsOut(const std::string& base, const std::string& name) {
  return absl::PermissionDeniedError(absl::StrCat(base, "/", OneLine(name, 200), " leads out of ",
                                                  base,
                                                  ": no part of it may be .. or a symbolic link"));
}

bool HasStepsUp(const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() ||
         std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

}  // namespace

absl::Status Files::CheckBeneath(const std::string& base, const std::string& name) {
  return HasStepsUp(name) ? LeadsOut(base, name) : absl::OkStatus();
}

absl::Status PosixFiles::CheckBeneath(const std::string& base, const std::string& name) {
  if (HasStepsUp(name)) return LeadsOut(base, name);
  const int directory = ::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return absl::OkStatus();
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long found = ::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof(how));
  const int error = found < 0 ? errno : 0;
  if (found >= 0) ::close(static_cast<int>(found));
  ::close(directory);
  if (error == ELOOP || error == EXDEV) return LeadsOut(base, name);
  if (error != ENOSYS && error != EPERM) return absl::OkStatus();
  // Without openat2: a kernel before 5.6, or a seccomp filter that does not know the call.
  std::filesystem::path path(base);
  for (const std::filesystem::path& part : std::filesystem::path(name)) {
    path /= part;
    struct stat there {};
    if (::lstat(path.c_str(), &there) != 0) return absl::OkStatus();
    if (S_ISLNK(there.st_mode)) return LeadsOut(base, name);
  }
  return absl::OkStatus();
}

absl::Status Files::WriteAtomic(const std::string& path, std::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, Create(temporary));
    RETURN_IF_ERROR(file->Append(contents));
    return file->Sync();
  };
  absl::Status renamed = write();
  if (renamed.ok()) {
    FAILPOINT("files.atomic.synced");
    renamed = Rename(temporary, path);
  }
  if (!renamed.ok()) {  // a full disk has no room for the new name
    (void)RemoveTree(temporary);
    return renamed;
  }
  FAILPOINT("files.atomic.renamed");
  return SyncDirectory(Parent(path));
}

absl::StatusOr<std::unique_ptr<ReadFile>> PosixFiles::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  // O_NONBLOCK: opening a pipe must not wait for a writer; pipes are refused below.
  const int fd =
      NoInterrupt([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  return std::make_unique<PosixReadFile>(fd, static_cast<uint64_t>(info.st_size), path);
}

absl::StatusOr<std::unique_ptr<WriteFile>> PosixFiles::Create(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  FAILPOINT_STATUS("files.create");
  const int fd = NoInterrupt(
      // O_NONBLOCK: opening a pipe must not wait for a reader.
      [&] {
        return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
      });
  if (fd < 0) return ErrnoStatus(errno, "cannot create", path);
  return std::make_unique<PosixWriteFile>(fd, path);
}

absl::StatusOr<std::unique_ptr<WriteFile>> PosixFiles::OpenToAppend(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  const int fd = NoInterrupt([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  });
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  return std::make_unique<PosixWriteFile>(fd, path);
}

absl::Status PosixFiles::CreateExclusive(const std::string& path, std::string_view contents) {
  RETURN_IF_ERROR(CheckLocal(path));
  const int fd = NoInterrupt(
      [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  if (fd < 0) return ErrnoStatus(errno, "cannot create", path);
  PosixWriteFile file(fd, path);
  absl::Status written = file.Append(contents);
  if (written.ok()) written = file.Sync();
  if (written.ok()) written = SyncDirectory(Parent(path));
  if (!written.ok()) (void)::unlink(path.c_str());  // nobody has read the file yet
  return written;
}

absl::Status PosixFiles::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckLocal(from));
  RETURN_IF_ERROR(CheckLocal(to));
  FAILPOINT_STATUS("files.rename");
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot rename to ", to), from);
  }
  return absl::OkStatus();
}

absl::Status PosixFiles::SyncDirectory(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  const Descriptor fd(
      NoInterrupt([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.get() >= 0 && ::fsync(fd.get()) == 0) return absl::OkStatus();
  const int error = errno;
  if (!IsUnknownToFileSystem(error)) {
    return ErrnoStatus(error, absl::StrCat("cannot ", fd.get() < 0 ? "open" : "sync", " directory"),
                       path);
  }
  WarnOfNoSync(path, error);
  return absl::OkStatus();
}

absl::Status PosixFiles::MakeDirectories(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  std::error_code error;
  std::vector<std::string> parents;  // parents of the directories made here
  for (std::string at = path; !at.empty() && !std::filesystem::exists(at, error);) {
    at = Parent(at);
    parents.push_back(at);
  }
  std::filesystem::create_directories(path, error);
  if (error) return ErrorCodeStatus(error, "cannot make directory", path);
  for (const std::string& parent : parents) {
    const absl::Status synced = SyncDirectory(parent);
    // A user may create directories in a parent without the right to read the parent.
    if (!synced.ok() && !absl::IsPermissionDenied(synced)) return synced;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> PosixFiles::List(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(path, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return ErrorCodeStatus(error, "cannot list", path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PosixFiles::RemoveTree(const std::string& path) {
  RETURN_IF_ERROR(CheckLocal(path));
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrorCodeStatus(error, "cannot remove", path);
  return absl::OkStatus();
}

}  // namespace paracord
