// A private temporary folder with the files of a job's program. The destructor removes the folder.
// A later Make by the same user with the same parent removes the folder of a killed process.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class ProgramFolder {
 public:
  // Makes a folder below `parent`; if `parent` is "", below TMPDIR or, without this variable, below
  // /tmp. `files`: the files' texts, keyed by their paths relative to the new folder.
  static absl::StatusOr<std::unique_ptr<ProgramFolder>> Make(
      const std::map<std::string, std::string>& files, const std::string& parent = "");
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ProgramFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // a descriptor of the folder, locked as long as this object lives
};

}  // namespace paracord
