// The folder below TMPDIR with the sockets of a local cluster (a socket's path must be short, so
// the folder is not below the job's DIR). Its file `lock` is locked while the owner, or a daemon
// that inherited the lock, lives, so that a later owner can tell which folders a killed one left
// behind. Used in one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class SocketDir {
 public:
  // Makes a folder in `parent`, and first removes those that killed owners of this user left there.
  static absl::StatusOr<std::unique_ptr<SocketDir>> Make(const std::string& parent);
  ~SocketDir();  // removes it
  SocketDir(const SocketDir&) = delete;
  SocketDir& operator=(const SocketDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  SocketDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
};

}  // namespace paracord
