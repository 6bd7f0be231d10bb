#include "cli/out_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cli/job_dir.h"
#include "common/status_macros.h"
#include "storage/checkpoint.h"

namespace paracord {

namespace {

std::optional<std::pair<uint64_t, uint64_t>> FileId(const std::string& path) {
  struct stat there = {};
  if (::stat(path.c_str(), &there) != 0) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(there.st_dev, there.st_ino);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> InputFiles::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, AllFiles::Open(path));
  if (const auto id = FileId(path); id.has_value()) {
    const MutexLock lock(mu_);
    read_.insert(*id);
  }
  return file;
}

bool InputFiles::HasRead(const std::string& path) {
  const auto id = FileId(path);
  const MutexLock lock(mu_);
  return id.has_value() && read_.contains(*id);
}

absl::Status CheckOutFile(InputFiles& files, const std::string& path) {
  if (!SchemeOf(path).empty()) {  // objects have no directories
    const absl::Status reached = files.Open(path).status();
    if (reached.ok() || absl::IsNotFound(reached)) return absl::OkStatus();
    const bool away = absl::IsUnavailable(reached);
    return absl::Status(away ? reached.code() : absl::StatusCode::kInvalidArgument,
                        absl::StrCat("--out: ", reached.message()));
  }
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  // The path is absolute, unless the working directory is gone.
  const std::string directory = above.empty() ? "." : above.string();
  const absl::Status there = files.List(directory).status();
  if (absl::IsNotFound(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: the directory ", directory, " is not there"));
  }
  if (!there.ok()) return absl::InvalidArgumentError(absl::StrCat("--out: ", there.message()));
  if (files.List(path).ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--out: ", path, " is a directory"));
  }
  if (files.HasRead(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: ", path, " is read by this command: it is left as it is"));
  }
  return absl::OkStatus();
}

absl::Status CheckNotOfJob(const std::string& flag, const std::string& dir,
                           const std::string& path) {
  const absl::Status refused = absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", path, " belongs to the job in ", dir, ": it is left as it is"));
  if (SchemeOf(path) != SchemeOf(dir)) return absl::OkStatus();
  if (!SchemeOf(path).empty()) {
    const bool below = path.starts_with(dir + "/");
    const std::string first = below ? path.substr(dir.size() + 1) : "";
    return IsOfJob(first.substr(0, first.find('/'))) ? refused : absl::OkStatus();
  }
  // Resolves links to get the real directories.
  std::error_code unresolved;
  const std::filesystem::path whole(path);
  std::filesystem::path above = std::filesystem::weakly_canonical(whole.parent_path(), unresolved);
  const std::filesystem::path root = std::filesystem::weakly_canonical(dir, unresolved);
  const std::filesystem::path below = (above / whole.filename()).lexically_relative(root);
  const std::string first = below.empty() ? "" : below.begin()->string();
  if (first == kLockName || IsOfJob(first)) return refused;
  const auto checkpoints_id = FileId(CheckpointsDirectory(dir));
  for (; checkpoints_id.has_value() && above.has_relative_path(); above = above.parent_path()) {
    if (FileId(above.string()) == checkpoints_id) return refused;
  }
  return absl::OkStatus();
}

absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write) {
  if (!SchemeOf(path).empty()) return write(path);  // object stores replace whole objects
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
    files.RemoveTree(temporary).IgnoreError();  // the first error counts
    return written;
  }
  return files.SyncDirectory(path.substr(0, path.rfind('/') + 1));
}

ExitCode ExitCodeOfWrite(const absl::Status& status) {
  const bool may_recover =
      absl::IsResourceExhausted(status) || absl::IsUnavailable(status) || absl::IsUnknown(status);
  return may_recover ? ExitCode::kPeerLost : ExitCode::kConfiguration;
}

}  // namespace paracord
