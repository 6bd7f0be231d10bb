#include "cli/socket_dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "paracord-";
constexpr std::string_view kDrawn = "XXXXXX";  // mkdtemp puts letters and digits there
constexpr size_t kPathMax = 80;                // leaves room for the name of a socket

bool HasOurName(const std::string& name) {
  if (name.size() != kPrefix.size() + kDrawn.size() || !name.starts_with(kPrefix)) return false;
  return std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c); });
}

// The daemons inherit the lock on purpose: they may outlive the owner for a moment.
int OpenLock(const std::string& path, int flags) {
  return open((path + "/lock").c_str(), O_RDWR | O_NOFOLLOW | flags, 0600);
}

// Removes the sockets and the lock, and the folder if nothing else is in it.
void RemoveSockets(const std::string& path) {
  std::error_code ignored;
  std::vector<fs::path> sockets;
  for (fs::directory_iterator it(path, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (it->symlink_status(ignored).type() == fs::file_type::socket) sockets.push_back(it->path());
  }
  for (const fs::path& socket : sockets) unlink(socket.c_str());
  unlink((path + "/lock").c_str());
  rmdir(path.c_str());
}

// Whether the lock is ours now. A file system without locks cannot say, and the answer is
// `unlockable`.
bool TakeLock(int lock, bool unlockable) {
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
  return errno != EWOULDBLOCK && unlockable;
}

void RemoveIfLeft(const std::string& path) {
  struct stat facts {};
  const bool ours = lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
                    facts.st_uid == geteuid() && (facts.st_mode & 0077) == 0;
  if (!ours) return;
  const int lock = OpenLock(path, O_CLOEXEC);
  if (lock < 0) return;  // foreign, or under construction
  if (TakeLock(lock, /*unlockable=*/false)) RemoveSockets(path);
  close(lock);
}

void RemoveLeftOnes(const std::string& parent) {
  std::error_code ignored;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(parent, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (HasOurName(it->path().filename().string())) paths.push_back(it->path().string());
  }
  for (const std::string& path : paths) RemoveIfLeft(path);
}

// Whether the locked file is still in the folder: another owner that cleans up may have removed it
// between our open and our lock.
bool StillThere(const std::string& path, int lock) {
  struct stat held {};
  struct stat found {};
  return fstat(lock, &held) == 0 && lstat((path + "/lock").c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketDir>> SocketDir::Make(const std::string& parent) {
  const std::string pattern = absl::StrCat(parent, parent.ends_with('/') ? "" : "/",
                                           std::string(kPrefix), std::string(kDrawn));
  if (pattern.size() > kPathMax) {
    return absl::InvalidArgumentError(absl::StrCat("TMPDIR is too long for the path of a socket (",
                                                   kPathMax, " bytes): ", pattern));
  }
  RemoveLeftOnes(parent);
  constexpr int kTries = 10;
  int error = EEXIST;
  for (int i = 0; i < kTries; ++i) {
    std::string path = pattern;
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno,
                                 absl::StrCat("cannot make ", pattern, " (TMPDIR says where)"));
    }
    const int lock = OpenLock(path, O_CREAT);
    if (lock >= 0 && TakeLock(lock, /*unlockable=*/true) && StillThere(path, lock)) {
      return std::unique_ptr<SocketDir>(new SocketDir(path, lock));
    }
    error = errno;
    if (lock >= 0) close(lock);
    rmdir(path.c_str());
  }
  return absl::ErrnoToStatus(error, "cannot lock " + pattern);
}

SocketDir::~SocketDir() {
  RemoveSockets(path_);
  close(lock_);
}

}  // namespace paracord
