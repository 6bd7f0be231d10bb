#include "cli/job_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/status_watch.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "config/cluster.h"
#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
#include "coordinator/rival.h"
#include "storage/checkpoint.h"
#include "storage/claim.h"

namespace paracord {
namespace {

absl::StatusOr<int> Lock(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kLockName);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot write " + path);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  if (IsUnknownToFileSystem(error) || error == ENOLCK) {
    Logger("train").Warn(
        "the file system of {} has no locks ({}): nothing keeps a second paracord train in it from "
        "starting at the same time",
        path, std::strerror(error));
    return fd;
  }
  close(fd);
  if (error != EWOULDBLOCK) return absl::ErrnoToStatus(error, "cannot lock " + path);
  return absl::AlreadyExistsError(
      absl::StrCat("another paracord train works in ", dir, ": wait for it or give another --dir"));
}

// Writes as many bytes as the first logs and states of a job take, and removes them.
absl::Status TryToWrite(Files& files, const std::string& dir) {
  constexpr size_t kTriedBytes = 64 << 10;
  const std::string path = dir + "/probe.tmp";
  const absl::Status written = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files.Create(path));
    RETURN_IF_ERROR(file->Append(std::string(kTriedBytes, 'p')));
    return file->Sync();
  }();
  const absl::Status removed = files.RemoveTree(path);
  return written.ok() ? removed : written;
}

absl::Status CheckNobodyLeads(Files& files, Network& network, const std::string& dir) {
  const std::string address = AddressIn(files, dir);
  if (!CheckAddress(address, kAddressName).ok()) return absl::OkStatus();
  std::error_code error;
  if (address.starts_with("unix:") && !std::filesystem::exists(address.substr(5), error)) {
    return absl::OkStatus();  // there is nobody to wait for
  }
  constexpr int64_t kDeadlineMs = 2000;
  const absl::StatusOr<nlohmann::json> status = AskStatus(network, address, kDeadlineMs);
  if (!status.ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool leads, LeadsJob(files, dir, *status));
  if (!leads) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("another coordinator leads the job in ", dir,
                                               " (at ", address, ", ", status->value("phase", ""),
                                               "): stop it first, or give another --dir"));
}

}  // namespace

absl::Status CheckNamesMachine(const std::string& dir, const std::string& address) {
  if (!address.starts_with("0.0.0.0:") && !address.starts_with("[::]:")) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(dir, "/", kAddressName, " has ", address,
                   ", at which the coordinator listens, and which names no machine: give "
                   "--address with the name of its machine or service, and --insecure where there "
                   "are no certificates"));
}

bool IsOfJob(std::string_view name) {
  for (const std::string_view whole :
       {"checkpoints", "logs", "tensorboard", "compiled", "index", kSummaryName, kDoneSummaryName,
        "evaluations.jsonl", kAddressName, kRunningJobName, kInitialWeightsName}) {
    if (name == whole) return true;
  }
  return name.starts_with(kTraceDirPrefix) || name.starts_with(kStatePrefix) ||
         name.starts_with(kGenerationPrefix);
}

absl::StatusOr<int> TakeDir(Files& files, const std::string& dir) {
  absl::StatusOr<int> lock = Lock(dir);
  if (!lock.ok() && absl::IsAlreadyExists(lock.status())) return lock;
  const absl::Status taken = lock.ok() ? TryToWrite(files, dir) : lock.status();
  if (taken.ok()) return lock;
  if (lock.ok()) close(*lock);
  return absl::Status(taken.code(),
                      absl::StrCat("--dir ", dir, " cannot be written: ", taken.message()));
}

bool HoldsDir(int lock, const std::string& dir) {
  struct stat ours = {}, there = {};
  if (fstat(lock, &ours) != 0) return true;
  if (stat(absl::StrCat(dir, "/", kLockName).c_str(), &there) != 0) {
    return errno != ENOENT && errno != ENOTDIR;
  }
  return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

absl::Status BeginAnew(Files& files, Network& network, const std::string& dir) {
  RETURN_IF_ERROR(CheckNobodyLeads(files, network, dir));
  ASSIGN_OR_RETURN(const uint64_t newest, NewestGeneration(files, dir));
  std::string claim;
  if (newest == std::numeric_limits<uint64_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, "/", kGenerationPrefix, newest, " was not made by a coordinator"));
  }
  if (newest > 0) {
    // The claim comes first: files that an older coordinator writes before it sees the claim are
    // removed below.
    RETURN_IF_ERROR(Claim(files, dir, newest + 1, /*boot_id=*/""));
    claim = absl::StrCat(kGenerationPrefix, newest + 1);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  if (newest == 0) {
    const std::string checkpoints = CheckpointsDirectory(dir);
    const absl::StatusOr<std::vector<std::string>> there = files.List(checkpoints);
    if (absl::IsNotFound(there.status()) || (there.ok() && there->empty())) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoints, " is there, but no job ran in ", dir, " (there is no ", kGenerationPrefix,
        "*): it is left as it is. Move it away, or give another --dir"));
  }
  for (const std::string& name : names) {
    if (IsOfJob(name) && name != claim) RETURN_IF_ERROR(files.RemoveTree(dir + "/" + name));
  }
  return absl::OkStatus();
}

}  // namespace paracord
