// The queues between the threads of a model's stages: values go to the next stage, gradients to the
// previous one, and variables with a complete gradient are reported to the thread that waits for
// the batch. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "keras/graph.h"

namespace paracord {

class StageLinks {
 public:
  explicit StageLinks(size_t stages) : stages_(stages) { Reset(); }

  // Called when a batch begins, while no stage computes.
  void Reset();

  // Called by a stage with its own number. A receive waits for a send. A queue holds as many
  // entries as there are stages, and a send into a full queue waits. ABORTED after an error of any
  // stage.
  absl::Status SendValues(size_t stage, StageTensors values) {
    return Send(&StageLinks::forward_, stage, std::move(values));
  }
  absl::StatusOr<StageTensors> ReceiveValues(size_t stage) {
    return Receive(&StageLinks::forward_, stage - 1);
  }
  absl::Status SendGradients(size_t stage, StageTensors gradients) {
    return Send(&StageLinks::backward_, stage - 1, std::move(gradients));
  }
  absl::StatusOr<StageTensors> ReceiveGradients(size_t stage) {
    return Receive(&StageLinks::backward_, stage);
  }
  // Called by a stage when the gradient of a variable is complete.
  void Report(size_t variable);
  // Called by a stage at its end. An error ends the waiting of all other stages.
  void End(const absl::Status& status);

  // Called by the thread that waits for the stages. Returns the next variable with a complete
  // gradient; nullopt when all stages have ended, or at once after an error.
  std::optional<size_t> NextReported();
  // The first error of a stage. Called when all stages have ended.
  absl::Status status();

 private:
  using Queues = std::vector<std::deque<StageTensors>>;  // one for each pair of neighbours

  absl::Status Send(Queues StageLinks::*queues, size_t cut, StageTensors tensors);
  absl::StatusOr<StageTensors> Receive(Queues StageLinks::*queues, size_t cut);

  const size_t stages_;
  Mutex mu_;
  std::condition_variable_any changed_;
  Queues forward_ ABSL_GUARDED_BY(mu_), backward_ ABSL_GUARDED_BY(mu_);
  std::deque<size_t> reported_ ABSL_GUARDED_BY(mu_);
  size_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
