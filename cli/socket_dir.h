// The folder below TMPDIR with the sockets of a local cluster: paths of sockets have to be short,
// so the job's DIR is no place for them. The owner, and daemons that inherit the lock, keep the
// folder's file `lock` locked while they live, by which a later owner recognises the folders of
// killed owners. Used in one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class SocketDir {
 public:
  // Makes a folder in `parent`, after removing folders of this user's killed owners.
  static absl::StatusOr<std::unique_ptr<SocketDir>> Make(const std::string& parent);
  ~SocketDir();  // removes the folder
  SocketDir(const SocketDir&) = delete;
  SocketDir& operator=(const SocketDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  SocketDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
};

}  // namespace paracord
