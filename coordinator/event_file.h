// The charts of a job: TensorBoard event files in the folder tensorboard of the job's directory.
// Each process of a coordinator begins a new file, and so does each write after an error, because a
// reader stops at a torn record. Owned by the coordinator; used on the executor alone. The file is
// open only during a write, so that storage can be unmounted between writes. Charts of a failed
// write are lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/core/events.h"

namespace paracord {

class EventFile {
 public:
  // `directory` is created with the first file. File names contain `generation`.
  EventFile(Files& files, std::string directory, uint64_t generation);

  // Writes the charts. Each file begins with a record that makes TensorBoard discard the points of
  // earlier files from the step of this file's first chart on.
  absl::Status Append(int64_t unix_ms, const std::vector<Chart>& charts);

 private:
  absl::StatusOr<std::unique_ptr<WriteFile>> Begin(int64_t unix_ms, int64_t first_step);
  absl::Status Write(int64_t unix_ms, const std::vector<Chart>& charts);

  Files& files_;
  const std::string directory_;
  const uint64_t generation_;
  uint64_t begun_ = 0;
  std::string path_;    // path of the newest file
  bool sound_ = false;  // the newest file may be appended to
};

}  // namespace paracord
