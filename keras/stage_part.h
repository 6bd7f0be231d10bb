// A stage of a model cut into stages: runs the graph of a KerasProgram over the slices of a batch,
// and exchanges values and gradients with the neighbouring stages. The last stage computes the
// losses and metrics of all outputs, including outputs of earlier stages. On a single device the
// gradient of a layer's output is a sum that begins with the loss's term; for equal bits, stages
// add the terms in the order of a single device. Owned by the stage program. Train, Evaluate and
// Predict are called on the stage's own thread; the other functions are called by the thread that
// uses the stage program, while no stage computes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "keras/keras_program.h"
#include "keras/stage_links.h"

namespace paracord {

// The arguments of a run, equal for all stages.
struct StageRun {
  const Batch& batch;
  uint64_t key = 0;
  ConstTensors values;
  MutableTensors gradients = {};  // empty in inference
};

class StagePart {
 public:
  // `program` must have been built as stage `stage`, counted from 0, of `stages`.
  StagePart(std::unique_ptr<KerasProgram> program, size_t stage, size_t stages, StageLinks& links)
      : program_(std::move(program)), stage_(stage), stages_(stages), links_(links) {}

  KerasProgram& program() { return *program_; }

  // Computes the stage's gradients. Slices go forward and backward in the order of ScheduleOfStage.
  absl::Status Train(const StageRun& run);
  // Computes the stage's part of an evaluation, whose results AddEvaluation takes.
  absl::Status Evaluate(const StageRun& run);
  // Computes the stage's part of the predictions, the whole batch in a single slice.
  absl::Status Predict(const StageRun& run);

  // Returns the loss of the last Train of all stages, with the bits that a single device computes.
  static double LossOf(std::span<const std::unique_ptr<StagePart>> stages, const Batch& batch);
  // Adds the metrics' states of the last Evaluate of all stages to `states`.
  static void AddEvaluation(std::span<const std::unique_ptr<StagePart>> stages, const Batch& batch,
                            std::vector<MetricState>& states);
  // Takes the model's outputs of the last Predict; called on the last stage.
  std::vector<Column> TakeOutputs() { return std::move(outputs_); }

 private:
  using Slices = KerasProgram::Slices;
  // The terms of a slice's loss: of outputs, and of regularizers (Graph::Penalties,
  // ActivityPenalties, BackwardNodes and EndUnread).
  struct SliceLoss {
    PendingSum heads, penalties, activities, written, unread;
  };

  bool last() const { return stage_ + 1 == stages_; }
  Graph& graph() { return *program_->graph_; }
  absl::Status OnDevice(const std::function<absl::Status()>& run);
  absl::Status Wait();
  absl::Status Bind(const StageRun& run, bool with_targets);
  absl::StatusOr<GraphCall> Prepare(const StageRun& run, const Slices& slices, int64_t slice,
                                    bool several);
  absl::StatusOr<GraphCall> Forward(const StageRun& run, const Slices& slices, int64_t slice,
                                    bool training, bool several);
  absl::Status Backward(const StageRun& run, const Slices& slices, int64_t slice);
  absl::Status FindDivisors(const StageRun& run, const Slices& slices, bool training);
  absl::Status DivideOne(const StageRun& run, const GraphCall& call);
  absl::Status TrainSlices(const StageRun& run);
  absl::Status EvaluateSlices(const StageRun& run);

  const std::unique_ptr<KerasProgram> program_;
  const size_t stage_, stages_;
  StageLinks& links_;
  // The state of the current run.
  std::vector<SliceLoss> losses_;        // indexed by slice
  std::vector<double> divisors_;         // indexed by head; empty: not known yet
  std::vector<PendingSum> head_losses_;  // indexed by head, in inference
  std::vector<MetricState> measured_;
  std::vector<Column> outputs_;
};

}  // namespace paracord
