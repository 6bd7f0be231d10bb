// A stage of a model cut into stages: runs the graph of a KerasProgram over the slices of a batch,
// and exchanges values and gradients with the neighbouring stages. The last stage computes the
// losses and metrics of all outputs, including outputs of earlier stages. It does so because a
// single device adds the loss's gradient to that of a layer's output first, before the gradients
// from layers that read the output: stages add in the same order, so that the results have the same
// bits. Owned by the stage program. Train, Evaluate and
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
  // The terms of a slice's loss. `heads` are the losses of outputs. The other terms are those of
  // regularizers, by the function of Graph that computes them: Penalties, ActivityPenalties,
  // BackwardNodes (`written`) and EndUnread (`unread`).
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
  // For each head (an output with a loss or metrics) the number by which the sum of its losses over
  // the batch is divided; empty while it is not known.
  std::vector<double> divisors_;
  std::vector<PendingSum> head_losses_;  // indexed by head; set by Evaluate
  std::vector<MetricState> measured_;
  std::vector<Column> outputs_;
};

}  // namespace paracord
