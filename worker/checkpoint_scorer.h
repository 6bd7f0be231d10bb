// Scores, for the evaluator, the newest checkpoint in a job's directory that can be read, and
// records the result in the directory's file evaluations.jsonl, which has a line of JSON for each
// scored checkpoint. Each write replaces the whole file. A recorded checkpoint is not scored again,
// even after a restart of the evaluator. Deletes nothing. If the coordinator removes a checkpoint
// while it is being read, that is no error. All calls block; used on the executor.
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
  // `dir`: the absolute path of the job's directory.
  CheckpointScorer(Files& files, std::string dir, OpenWorkloadFn open);

  // The result of a LookOnce.
  struct Look {
    std::vector<std::string> said;  // lines for the log, without those of the previous look
    bool scored = false;            // a checkpoint was scored, and a newer checkpoint may exist
    // The exit code and the reason of the evaluator's end; nullopt: the evaluator goes on.
    std::optional<std::pair<ExitCode, std::string>> leave;
  };
  // Scores the newest checkpoint that can be read, unless evaluations.jsonl has it. `unix_ms`: the
  // time to record. Gives up soon after `stop` is set.
  Look LookOnce(int64_t unix_ms, const std::atomic<bool>& stop);

 private:
  // kUnreadable: the checkpoint cannot be read now, but perhaps in a later look.
  enum class Fate { kScored, kKnown, kUnusable, kUnreadable, kStopped, kFailed };
  // The newest checkpoint counts as unusable once more looks than this in a row could not read it.
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

  bool scored_known_ = false;                             // evaluations_ and scored_ were read
  std::string evaluations_;                               // the text of evaluations.jsonl
  std::set<std::pair<std::string, std::string>> scored_;  // (run id, name of the checkpoint)
  std::string job_json_;                                  // the job that workload_ computes
  uint64_t batch_ = 0;
  std::optional<Workload> workload_;
  int unreadable_ = 0;  // how many looks in a row could not read the newest checkpoint
  std::set<std::string> said_before_, said_now_;
  Look look_;
  std::optional<KnownDamage> damage_;  // the damaged files that the present look has found
};

}  // namespace paracord
