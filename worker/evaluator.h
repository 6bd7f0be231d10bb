// The role `evaluator`: looks into the job's directory again and again and scores the newest
// checkpoint (checkpoint_scorer.h), beside the training and without a coordinator. The job comes
// from the checkpoint. Leaves after the final checkpoint. Owned by main; looks run on the executor,
// everything else on the loop.
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
  std::string host = "";         // the machine, for messages
  std::string coordinator = "";  // the coordinator's address, to ask for its DIR; "": not known
  int64_t poll_ms = 1000;        // between two looks that found nothing new
};

class Evaluator {
 public:
  // `exit` is called once, on the loop: the process should end with this code.
  Evaluator(EvaluatorOptions options, OpenWorkloadFn open, Environment environment,
            std::function<void(int exit_code, std::string reason)> exit);
  ~Evaluator();

  void Start();
  void Drain();  // SIGTERM: leaves as soon as the batch under way is done. On the loop.

 private:
  void Look();
  void Looked(const CheckpointScorer::Look& look);
  // Asks the coordinator, if there is any, whether its DIR is the evaluator's DIR, until the
  // coordinator has answered.
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
  std::optional<int64_t> other_dir_since_ms_;
  bool found_ = false;  // a checkpoint was found
  bool looking_ = false;
  bool exiting_ = false;
  const Gate gate_;
};

}  // namespace paracord
