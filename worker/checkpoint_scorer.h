// Scores the newest checkpoint of a job's directory for the evaluator, and records the result in
// DIR/evaluations.jsonl, one JSON object a line. The file is replaced as a whole, and a recorded
// checkpoint is not scored again, even after a restart. All calls block, on the executor's thread
// alone. Deletes nothing. A checkpoint that the coordinator removes while it is read is no error.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "common/files.h"
#include "program/workload.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"

namespace paracord {

class CheckpointScorer {
 public:
  // `dir` is absolute.
  CheckpointScorer(Files& files, std::string dir, OpenWorkloadFn open);

  // The result of one look at the directory.
  struct Look {
    std::vector<std::string> said;  // for the log, without what the previous look said too
    bool scored = false;            // a checkpoint was scored, and a newer checkpoint may exist
    std::optional<std::pair<ExitCode, std::string>> leave;  // nothing is left to do, and why
  };
  // Scores the newest checkpoint if it is not recorded. `unix_ms` is the time that is recorded.
  // Gives up soon once `stop` is set.
  Look LookOnce(int64_t unix_ms, const std::atomic<bool>& stop);

 private:
  // kUnreadable: the checkpoint cannot be read now, but perhaps in a later look.
  enum class Fate { kScored, kKnown, kUnusable, kUnreadable, kStopped, kFailed };
  // After so many looks at an unreadable newest checkpoint it counts as unusable.
  static constexpr int kUnreadableMax = 60;

  std::string PathOf(const CheckpointName& name) const;
  absl::Status ReadScored();
  Fate TryOne(const CheckpointName& name, int64_t unix_ms, const std::atomic<bool>& stop,
              bool& complete);
  absl::Status Score(const Manifest& manifest, int64_t unix_ms, const std::atomic<bool>& stop);
  absl::Status Prepare(const Manifest& manifest);
  void Say(std::string what);
  void Leave(ExitCode code, std::string why) { look_.leave.emplace(code, std::move(why)); }
  void LeaveIfOver(bool newest_complete, Fate newest);

  Files& files_;
  const std::string dir_;
  const OpenWorkloadFn open_;

  bool scored_known_ = false;
  std::string evaluations_;                               // the file's text
  std::set<std::pair<std::string, std::string>> scored_;  // run id, name
  std::string job_json_;                                  // the job that workload_ computes
  uint64_t batch_ = 0;
  std::optional<Workload> workload_;
  int unreadable_ = 0;  // looks in a row
  std::set<std::string> said_before_, said_now_;
  Look look_;
  std::optional<KnownDamage> damage_;  // damage that this look has found
};

}  // namespace paracord
