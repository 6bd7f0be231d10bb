// A private temporary folder with the files of a job's program. Removed by the destructor or, if
// the process was killed, when the next process of the same user makes a folder.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class ProgramFolder {
 public:
  // Makes a folder below `parent`; "": TMPDIR or /tmp. `files` are texts by relative path.
  static absl::StatusOr<std::unique_ptr<ProgramFolder>> Make(
      const std::map<std::string, std::string>& files, const std::string& parent = "");
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ProgramFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // descriptor of the folder, locked for its owner's life
};

}  // namespace paracord
