// The file that a command is told to write, by --out or --trace. Blocking, in main's thread.
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

// The files of a command with --out. Remembers the files that were opened for reading, by inode, so
// that HasRead() knows a file under any of its paths.
class InputFiles : public AllFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  bool HasRead(const std::string& path);

 private:
  Mutex mu_;
  std::set<std::pair<uint64_t, uint64_t>> read_ ABSL_GUARDED_BY(mu_);  // device and inode
};

// Checks as far as possible that `path`, an absolute path, can be written: its directory exists,
// and `path` is no directory and no file that was read through `files`. A command calls this before
// and after it reads its inputs. INVALID_ARGUMENT names the flag --out. UNAVAILABLE: the object
// store does not answer.
absl::Status CheckOutFile(InputFiles& files, const std::string& path);
// Checks that `path`, the value of `flag`, is neither a file that a job keeps in `dir` (absolute)
// nor below the job's checkpoints. INVALID_ARGUMENT names `flag`, `path` and `dir`.
absl::Status CheckNotOfJob(const std::string& flag, const std::string& dir,
                           const std::string& path);

// Replaces the file `path` as a whole or not at all. Calls `write` with the path of a temporary
// file beside `path`, which `write` writes and syncs, and then renames the temporary file to
// `path`. If `path` is in an object store, calls `write` with `path` itself: an object appears as a
// whole. INVALID_ARGUMENT: `path` is there and is no regular file.
absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write);

// The exit code for an error of writing: kPeerLost if the storage may recover, kConfiguration if a
// person has to mend something.
ExitCode ExitCodeOfWrite(const absl::Status& status);

}  // namespace paracord
