// The interface between the trainer and the code that computes gradients: parameters in, gradients
// and metrics out. Implemented by Keras models on the CPU and on GPUs, by programs of jobs, and by
// the simulator's counting model. The trainer calls from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

// A float32 array for each variable of variables(), in order, with all the variable's elements or
// with those of a batch's rows (TableRows).
using ConstTensors = std::span<const std::span<const float>>;
using MutableTensors = std::span<const std::span<float>>;

// The rows of each table read by a batch. A program may derive a class with more data.
struct TableRows {
  virtual ~TableRows() = default;
  // The ids by variable, distinct and ascending; those of a growing table lie shard after shard
  // (config/partitions.h). Empty if the variable is no table.
  std::vector<std::vector<uint64_t>> ids;
  // By variable, the index at which the ids of each shard of a growing table begin, and the end of
  // the last shard; empty, also as a whole, without growing tables.
  std::vector<std::vector<uint32_t>> shards;

  // Whether the variable's ids lie shard after shard.
  bool has_shards(size_t variable) const {
    return variable < shards.size() && !shards[variable].empty();
  }
};

// For each layer with a vocabulary, the looked-up values and how many of them the vocabulary lacks.
struct LookupCount {
  uint64_t values = 0, unknown = 0;
  std::string example;  // an unknown value, for people
};
using LookupCounts = std::map<std::string, LookupCount>;

// A batch and its key (GradientProgram::ComputeGradients).
struct KeyedBatch {
  const Batch* batch = nullptr;
  uint64_t key = 0;
};

class GradientProgram {
 public:
  virtual ~GradientProgram() = default;

  // The model's variables, constant.
  virtual const std::vector<VariableSpec>& variables() const = 0;
  // The names of an evaluation's results: "loss" first, then the job's metrics.
  virtual const std::vector<std::string>& metric_names() const = 0;

  // The outputs as "NAME (SHAPE)" where a program of the job declares them; empty where the job's
  // own model describes them.
  virtual std::vector<std::string> Outputs() const { return {}; }

  // The batch sizes supported by the program; empty: any.
  virtual std::vector<uint32_t> BatchSizes() const { return {}; }

  // True if values are read and gradients written in place; false if a device copies them.
  virtual bool host_memory() const { return true; }

  // Returns the mean loss over the batch and writes its gradient by every trainable variable; for a
  // moving average, the observation used in the update. `batch_key`, a pure function of the job's
  // seed and the batch's identity, seeds dropout. `gradients` has an empty span for an untrained
  // variable. Results are not checked for finite values. INVALID_ARGUMENT: the batch does not fit
  // the model (shape, label out of range); RESOURCE_EXHAUSTED: the device has too little memory;
  // DATA_LOSS: the device is lost. After an error the contents of `gradients` are undefined.
  virtual absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                  ConstTensors values,
                                                  MutableTensors gradients) = 0;

  // The number of batches of a ComputeSum, a power of two; 0: the program has no ComputeSum.
  virtual size_t replicas() const { return 0; }
  // Computes each batch on a device of its own, all at once, where the devices add up the gradients
  // themselves, in an order of their own. Returns the mean loss over each batch, and writes the sum
  // of the batches' gradients. Errors are those of ComputeGradients, without a word on which batch
  // is at fault; INVALID_ARGUMENT also if the program cannot add up batches of these sizes.
  virtual absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> /*batches*/,
                                                         ConstTensors /*values*/,
                                                         MutableTensors /*sum*/) {
    return absl::UnimplementedError("the program adds up no gradients of several batches");
  }

  // Takes the states of the metrics over the last batch of ComputeGradients, in training mode and
  // in the order of metric_names(). A metric unknown in training has an empty state; the loss is
  // always unknown here. An empty list: no metric is known.
  virtual std::vector<MetricState> TakeTrainingMetrics() { return {}; }

  // Sets a callback for all later ComputeGradients; nullptr removes the callback. On the thread of
  // ComputeGradients, calls `there` with each variable whose gradient is complete while others are
  // still being computed, those near the losses first (on a GPU: whose download is complete). All
  // gradients are complete when ComputeGradients returns, with or without a call of `there`. If
  // ComputeGradients fails, the gradients reported before are void, too.
  virtual void OnGradient(std::function<void(size_t variable)> there) { (void)there; }

  // The table rows read by a batch, or null if the model has no tables. INVALID_ARGUMENT names a
  // record with an id outside its table.
  virtual absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& /*batch*/) {
    return nullptr;
  }
  // From now on, until the next call, batches are those of `rows`, and arrays of tables hold only
  // these rows. Null, the initial state: arrays of tables hold all rows.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}

  // Adds the state of every metric over the batch, in inference mode, to `states`; states[i]
  // belongs to metric_names()[i], and states of batches merge by addition.
  virtual absl::Status Evaluate(const Batch& batch, ConstTensors values,
                                std::vector<MetricState>& states) = 0;

  // Checks a batch like ComputeGradients, with equal INVALID_ARGUMENT, but computes nothing; adds
  // the batch's lookups to `counts`. Called when a job is checked.
  virtual absl::Status LookAt(const Batch& /*batch*/, LookupCounts& /*counts*/) {
    return absl::OkStatus();
  }

  // Computes the model's named outputs in inference mode, row-major; for `paracord compute`.
  virtual absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) = 0;
  // How often the computing device or process was lost and restarted since the last call, and the
  // last reason, for people.
  struct Losses {
    uint64_t count = 0;
    std::string last;
  };
  virtual Losses TakeLosses() { return {}; }
  // Names, with file and record, a probable mistake in a batch, valid nonetheless, for people; ""
  // without one.
  virtual std::string Doubt(const Batch& /*batch*/) const { return ""; }
  // Describes the model layer by layer, for people; empty if there are no layers.
  virtual std::string Summary() const { return ""; }
  // Describes the program's device memory in a line for people; empty if unknown.
  virtual std::string Memory() const { return ""; }
  // The multiply-adds of a training step, forward and backward, over one example; 0 if unknown.
  virtual int64_t MultiplyAdds() const { return 0; }
};

}  // namespace paracord
