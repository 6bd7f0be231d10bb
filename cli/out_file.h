// The file that a command is told to write, by --out or --trace. Blocking, in main's thread. Errors
// name the path.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/mutex.h"
#include "objects/all_files.h"

namespace paracord {

// The files that a command with --out reads, remembered by inode, whatever their paths.
class InputFiles : public AllFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  bool HasRead(const std::string& path);

 private:
  Mutex mu_;
  std::set<std::pair<uint64_t, uint64_t>> read_ ABSL_GUARDED_BY(mu_);  // device and inode
};

// Checks as far as possible that `path`, absolute, can be written: the directory exists, `path` is
// no directory and no file that was read. A command calls this before and after it reads its
// inputs. INVALID_ARGUMENT names the flag --out and the path. UNAVAILABLE: the object store does
// not answer.
absl::Status CheckOutFile(InputFiles& files, const std::string& path);
// Checks that `path`, which `flag` gives, is no file that a job keeps in `dir` (absolute), and not
// below the job's checkpoints. INVALID_ARGUMENT names the flag, the path and `dir`.
absl::Status CheckNotOfJob(const std::string& flag, const std::string& dir,
                           const std::string& path);

// Replaces `path` as a whole or not at all: `write` writes and syncs a temporary file beside
// `path`, which is renamed then. In an object store `write` writes `path` itself, which appears as
// a whole. INVALID_ARGUMENT if `path` is something else than a regular file.
absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write);

// The exit code for an error of writing: whether a person has to mend something, or the disk may
// recover.
ExitCode ExitCodeOfWrite(const absl::Status& status);

}  // namespace paracord
