#include "worker/evaluator.h"

#include <utility>

namespace paracord {

Evaluator::Evaluator(EvaluatorOptions options, OpenWorkloadFn open, Environment environment,
                     std::function<void(int exit_code, std::string reason)> exit)
    : options_(std::move(options)),
      environment_(environment),
      exit_(std::move(exit)),
      log_(options_.task),
      alive_(std::make_shared<bool>(true)),
      scorer_(
          std::make_shared<CheckpointScorer>(environment_.files, options_.dir, std::move(open))),
      stop_(std::make_shared<std::atomic<bool>>(false)) {}

Evaluator::~Evaluator() {
  *alive_ = false;
  stop_->store(true);
}

void Evaluator::Start() { Look(); }

void Evaluator::Look() {
  if (exiting_) return;
  looking_ = true;
  const auto look = std::make_shared<CheckpointScorer::Look>();
  environment_.executor.Run(
      [look, scorer = scorer_, stop = stop_, now = environment_.loop.UnixMs()] {
        *look = scorer->LookOnce(now, *stop);
      },
      [this, look, alive = alive_] {
        if (*alive) Looked(*look);
      });
}

void Evaluator::Looked(const CheckpointScorer::Look& look) {
  looking_ = false;
  for (const std::string& line : look.said) log_.Info("{}", line);
  if (stop_->load()) return Exit(ExitCode::kDrained, "drained");
  if (look.leave.has_value()) return Exit(look.leave->first, look.leave->second);
  environment_.loop.PostAfter(look.scored ? 0 : options_.poll_ms, [this, alive = alive_] {
    if (*alive) Look();
  });
}

void Evaluator::Drain() {
  stop_->store(true);
  if (!looking_) Exit(ExitCode::kDrained, "drained");
}

void Evaluator::Exit(ExitCode code, const std::string& reason) {
  if (std::exchange(exiting_, true)) return;
  log_.Info("leaves with exit code {}: {}", static_cast<int>(code), reason);
  exit_(static_cast<int>(code), reason);
}

}  // namespace paracord
