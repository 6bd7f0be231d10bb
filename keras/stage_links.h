// The queues between the threads of a model's stages: values go to the next stage, gradients to the
// previous stage, and variables whose gradient is complete are reported to the thread that waits
// for the stages. Thread-safe.
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

  // Called before each batch, while no stage computes.
  void Reset();

  // A stage calls these functions with its own number, counted from 0. A receive waits for a send,
  // and a send waits while the queue has as many entries as there are stages. ABORTED once a stage
  // has ended with an error.
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
  // Called by a stage when its part of the batch ends. An error ends the waiting in all functions.
  void End(const absl::Status& status);

  // Called by the thread that waits for the stages. Waits for the next Report and returns its
  // variable; nullopt after an error, or when all stages have ended and no report is left.
  std::optional<size_t> NextReported();
  // The first error with which a stage ended. Called when all stages have ended.
  absl::Status status();

 private:
  using Queues = std::vector<std::deque<StageTensors>>;  // queue i is between stages i and i + 1

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
