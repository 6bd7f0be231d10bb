// The role `evaluator`: looks into the job's directory again and again and scores the newest
// checkpoint (checkpoint_scorer.h), beside the training and without a coordinator. The job is read
// from the checkpoint. Leaves once the final checkpoint is scored. Owned by main; looks run on the
// executor, everything else on the event loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/environment.h"
#include "common/exit_code.h"
#include "common/gate.h"
#include "common/log.h"
#include "worker/checkpoint_scorer.h"

namespace paracord {

struct EvaluatorOptions {
  std::string task = "evaluator:0";
  std::string dir;               // absolute
  std::string host = "";         // the name of this machine, for messages
  std::string coordinator = "";  // where to ask the coordinator for its directory; "": not known
  int64_t poll_ms = 1000;        // the pause after a look that scored no checkpoint
};

class Evaluator {
 public:
  // `exit` is called once, on the event loop, when the process should end with `exit_code`.
  Evaluator(EvaluatorOptions options, OpenWorkloadFn open, Environment environment,
            std::function<void(int exit_code, std::string reason)> exit);
  ~Evaluator();

  void Start();
  void Drain();  // for SIGTERM: leaves as soon as the scorer gives up. On the event loop.

 private:
  void Look();
  void Looked(const CheckpointScorer::Look& look);
  // Asks the coordinator whether its directory is the evaluator's, again and again until the answer
  // shows that both are the same.
  void AskForDir();
  void Answered(const std::string& answer);
  void OtherDir(const std::string& theirs);
  void Exit(ExitCode code, const std::string& reason);

  const EvaluatorOptions options_;
  const Environment environment_;
  const std::function<void(int, std::string)> exit_;
  const Logger log_;
  // Shared with work on the executor, which may outlive the evaluator.
  const std::shared_ptr<CheckpointScorer> scorer_;
  const std::shared_ptr<std::atomic<bool>> stop_;

  std::unique_ptr<Link> coordinator_;
  std::optional<int64_t> other_dir_since_ms_;  // when an answer first showed another directory
  bool found_ = false;                         // a checkpoint was scored
  bool looking_ = false;
  bool exiting_ = false;
  const Gate gate_;
};

}  // namespace paracord
