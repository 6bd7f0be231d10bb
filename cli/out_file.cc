#include "cli/out_file.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {

absl::Status CheckOutFile(Files& files, const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const absl::Status there = files.List(directory).status();
  if (absl::IsNotFound(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: the directory ", directory, " is not there"));
  }
  if (!there.ok()) return absl::InvalidArgumentError(absl::StrCat("--out: ", there.message()));
  if (files.List(path).ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--out: ", path, " is a directory"));
  }
  return absl::OkStatus();
}

absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write) {
  std::error_code absent;
  const std::filesystem::file_status there = std::filesystem::status(path, absent);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file: it is left as it is"));
  }
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  absl::Status written = write(temporary);
  if (written.ok()) written = files.Rename(temporary, path);
  if (!written.ok()) {
    files.RemoveTree(temporary).IgnoreError();  // the error that counts is the first
    return written;
  }
  return files.SyncDirectory(path.substr(0, path.rfind('/') + 1));
}

}  // namespace paracord
