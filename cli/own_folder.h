// Returns the folder of the running program, in which the programs of the daemons are, too.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace paracord {

inline absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return self.parent_path().string();
  return absl::NotFoundError(
      absl::StrCat("/proc/self/exe: ", error.message(),
                   ": mount /proc, which says where the programs of the daemons are"));
}

}  // namespace paracord
