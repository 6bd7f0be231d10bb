// The charts of a job: TensorBoard's event files, in DIR/tensorboard. One a life of a coordinator,
// and another one after an error, since a reader stops at a torn record. Owned by the coordinator;
// used on the executor alone. The file is open only during a write, so DIR can be unmounted between
// writes. Nothing depends on these files: what fails is said and left out.
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
  // `directory` is made with the first file. Names of files begin with `generation`.
  EventFile(Files& files, std::string directory, uint64_t generation);

  // Writes the charts. The first record of a file voids what earlier files say of steps from
  // `Chart::step` on.
  absl::Status Append(int64_t unix_ms, const std::vector<Chart>& charts);

 private:
  absl::StatusOr<std::unique_ptr<WriteFile>> Begin(int64_t unix_ms, int64_t first_step);
  absl::Status Write(int64_t unix_ms, const std::vector<Chart>& charts);

  Files& files_;
  const std::string directory_;
  const uint64_t generation_;
  uint64_t begun_ = 0;
  std::string path_;    // the newest file's
  bool sound_ = false;  // it may be gone on with
};

}  // namespace paracord
