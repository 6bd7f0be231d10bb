// The role `evaluator`: looks into the job's directory again and again and scores the newest
// checkpoint (checkpoint_scorer.h) while workers train. Needs no coordinator: the job is read from
// the checkpoint. Ends once the final checkpoint of a job that is done is scored. Owned by main;
// looks run on the executor, everything else on the event loop.
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
  std::string dir;        // the job's directory, an absolute path
  std::string host = "";  // the name of this machine, for the log
  // The address of the coordinator, which is asked whether its directory is `dir`; "": not asked.
  std::string coordinator = "";
  int64_t poll_ms = 1000;  // the pause after a look that scored no checkpoint
};

class Evaluator {
 public:
  // `exit` is called once, on the event loop, when the process should end with `exit_code`.
  Evaluator(EvaluatorOptions options, OpenWorkloadFn open, Environment environment,
            std::function<void(int exit_code, std::string reason)> exit);
  ~Evaluator();

  void Start();
  // Called on the event loop after SIGTERM: ends the evaluator once a look under way has given up.
  void Drain();

 private:
  void Look();
  void Looked(const CheckpointScorer::Look& look);
  // Asks the coordinator again and again, until an answer shows that it has the same directory.
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
  bool found_ = false;                         // this process has scored a checkpoint
  bool looking_ = false;
  bool exiting_ = false;
  const Gate gate_;
};

}  // namespace paracord
