// A private temporary folder with the files of a job's program. It is removed with this object, or,
// if the process was killed, by the next one of the same user that makes such a folder.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class ProgramFolder {
 public:
  // Below `parent`, which is TMPDIR or /tmp where it is empty. `files` are texts by relative path.
  static absl::StatusOr<std::unique_ptr<ProgramFolder>> Make(
      const std::map<std::string, std::string>& files, const std::string& parent = "");
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ProgramFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // the folder itself, locked as long as its owner lives
};

}  // namespace paracord
