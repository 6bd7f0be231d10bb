// A private temporary folder with the files of a job's program. The destructor removes the folder.
// If the process was killed, Make in a later process of the same user removes the folder.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

class ProgramFolder {
 public:
  // Makes a folder below `parent` or, if `parent` is "", below TMPDIR or /tmp. `files`: the texts
  // of the files, keyed by path relative to the folder.
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
