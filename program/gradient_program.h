// The one small interface at which the trainer meets whatever computes gradients: parameters in,
// gradients and metrics out. The Keras model on the CPU implements it; CUDA, plug-ins and the
// simulator's counting model are others. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "proto/paracord.pb.h"

namespace paracord {

// One float32 array for each variable of variables(), in that order, each of the variable's size.
using ConstTensors = std::span<const std::span<const float>>;
using MutableTensors = std::span<const std::span<float>>;

class GradientProgram {
 public:
  virtual ~GradientProgram() = default;

  // What the model declares; never changes.
  virtual const std::vector<VariableSpec>& variables() const = 0;
  // Of an evaluation: "loss" first, then the job's metrics.
  virtual const std::vector<std::string>& metric_names() const = 0;

  // Whether values are read, and gradients written, where they are. Else a device copies them.
  virtual bool host_memory() const { return true; }

  // Mean loss over the batch and its gradient by every trainable variable; for a moving average,
  // what it is to be given instead. `batch_key` is a pure
  // function of the job's seed and the batch's identity (dropout). `gradients` has an empty span
  // where the variable is not trainable. Does not check for finite values. INVALID_ARGUMENT: the
  // batch does not fit the model (shape, label out of range).
  virtual absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                  ConstTensors values,
                                                  MutableTensors gradients) = 0;

  // Within ComputeGradients and on its thread, runs `there` of each variable whose gradient is in
  // place while others are still computed, those near the losses first; of the others it may, or
  // they just are at its end. (Of a GPU: those whose copy has come while it goes on.) Those of a
  // ComputeGradients that fails after all are of no use. Until it is called with nullptr.
  virtual void OnGradient(std::function<void(size_t variable)> there) { (void)there; }

  // Adds the state of every metric over the batch (inference mode) to `states`, which are merged by
  // addition: states[i] belongs to metric_names()[i].
  virtual absl::Status Evaluate(const Batch& batch, ConstTensors values,
                                std::vector<MetricState>& states) = 0;

  // Model outputs in inference mode, row-major and with their names; for `paracord compute`.
  virtual absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) = 0;
  // What is surely a mistake in a batch and yet no error, with file and record, for people; empty
  // where nothing is.
  virtual std::string Doubt(const Batch& /*batch*/) const { return ""; }
  // The model layer by layer, for people; empty lines where there are no layers.
  virtual std::string Summary() const { return ""; }
  // What it takes of the device's memory, in one line for people; empty where that is not known.
  virtual std::string Memory() const { return ""; }
  // Of a training step, forward and backward, over one example; 0 where that is not known.
  virtual int64_t MultiplyAdds() const { return 0; }
};

}  // namespace paracord
