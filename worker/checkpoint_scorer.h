// Scores the newest checkpoint of a job's directory for the evaluator, unless that is done, and
// writes the result down in DIR/evaluations.jsonl, one JSON object a line, which is replaced as a
// whole. A checkpoint that stands there is not scored again, also after a restart. Blocking, on
// the executor's thread alone. Deletes nothing, and a checkpoint that retention removes meanwhile
// is no error.
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

  struct Look {
    std::vector<std::string> said;  // for the log; what the look before said too is left out
    bool scored = false;            // one; there may be a newer one by now
    std::optional<std::pair<ExitCode, std::string>> leave;  // nothing is left to do, and why
  };
  // `unix_ms` goes into the result. Gives up soon once `stop` is set.
  Look LookOnce(int64_t unix_ms, const std::atomic<bool>& stop);

 private:
  // kUnreadable: now; another look may find otherwise.
  enum class Fate { kScored, kKnown, kUnusable, kUnreadable, kStopped, kFailed };
  // Looks at the newest checkpoint in which it cannot be read before it counts as unusable.
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
  std::string job_json_;                                  // of workload_
  uint64_t batch_ = 0;
  std::optional<Workload> workload_;
  int unreadable_ = 0;  // looks in a row
  std::set<std::string> said_before_, said_now_;
  Look look_;
  std::optional<KnownDamage> damage_;  // found in this look
};

}  // namespace paracord
