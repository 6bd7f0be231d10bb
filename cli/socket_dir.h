// The folder with the sockets of a local cluster, below TMPDIR: paths of sockets have to be short,
// and the path of the job's directory may be long. A SocketDir, and the daemons that inherit its
// lock, keep the file `lock` in the folder locked while they live. A later SocketDir sees by
// unlocked files which folders were left by killed processes. Used in one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class SocketDir {
 public:
  // Makes a folder in `parent`, after removing those that killed processes of this user left there.
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
