// The folder below TMPDIR with the sockets of a local cluster (their paths must be short, so it is
// not below the job's DIR). Locked by `lock` in it as long as its owner or a daemon that inherited
// the lock lives, so that a later owner can tell what a killed one has left behind. Used in one
// thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class SocketDir {
 public:
  // First removes the folders in `parent` that such owners of this user have left.
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
