// The file that a command is told to write by --out. Blocking, in main's thread. Errors name the
// path.
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

// The files of a command that writes --out. It remembers what has been read, by whatever name.
class InputFiles : public AllFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;
  bool HasRead(const std::string& path);

 private:
  Mutex mu_;
  std::set<std::pair<uint64_t, uint64_t>> read_ ABSL_GUARDED_BY(mu_);  // device and inode
};

// Whether `path`, absolute, can be written as far as is seen yet: its directory is there, it is
// none itself, and it is no file that has been read; so it is asked again when the inputs have
// been. INVALID_ARGUMENT names the flag --out and the path.
absl::Status CheckOutFile(InputFiles& files, const std::string& path);
// Whether what `flag` says is outside of what a job keeps in `dir`, absolute: of its checkpoints,
// of its files. INVALID_ARGUMENT names both.
absl::Status CheckNotOfJob(const std::string& flag, const std::string& dir,
                           const std::string& path);

// Replaces `path` as a whole or not at all: `write` is given a temporary file beside it, to write
// and sync, which is renamed then. INVALID_ARGUMENT if what is there is no regular file.
absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write);

// Of what could not be written: whether a person has to mend something, or the disk may recover.
ExitCode ExitCodeOfWrite(const absl::Status& status);

}  // namespace paracord
