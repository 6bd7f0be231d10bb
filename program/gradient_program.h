// The interface to the code that computes gradients: parameters in, gradients and metrics out.
// Keras models on the CPU and on GPUs, programs of jobs and the simulator's model implement it.
// Used by one thread at a time.
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

// A float32 array for each variable, in the order of variables(). The array has all elements of the
// variable; for a table, GradientProgram::UseRows may restrict the array to some rows.
using ConstTensors = std::span<const std::span<const float>>;
using MutableTensors = std::span<const std::span<float>>;

// The rows that one or several batches read of each table. Programs may derive classes from this.
struct TableRows {
  virtual ~TableRows() = default;
  // For each variable the distinct ids of the rows, ascending; for a growing table ascending within
  // each shard (config/partitions.h), shard after shard. Empty for a variable that is no table.
  std::vector<std::vector<uint64_t>> ids;
  // For each growing table the index in its `ids` at which each shard begins, and last the number
  // of ids. Empty for other variables; the outer vector may be empty if no table grows.
  std::vector<std::vector<uint32_t>> shards;

  bool has_shards(size_t variable) const {
    return variable < shards.size() && !shards[variable].empty();
  }
};

// How many values a layer has looked up in its vocabulary, and how many the vocabulary lacks.
struct LookupCount {
  uint64_t values = 0, unknown = 0;
  std::string example;  // one of the values that the vocabulary lacks, for people
};
// Keyed by the layer's class and name.
using LookupCounts = std::map<std::string, LookupCount>;

// A batch, and its `batch_key` of GradientProgram::ComputeGradients.
struct KeyedBatch {
  const Batch* batch = nullptr;
  uint64_t key = 0;
};

class GradientProgram {
 public:
  virtual ~GradientProgram() = default;

  // The model's variables, the same in every call.
  virtual const std::vector<VariableSpec>& variables() const = 0;
  // The names of what Evaluate computes, "loss" first; empty: Evaluate is not implemented.
  virtual const std::vector<std::string>& metric_names() const = 0;

  // The outputs that a program of the job declares, as "NAME (SHAPE)"; empty for a Keras model.
  virtual std::vector<std::string> Outputs() const { return {}; }

  // The batch sizes that the program supports; empty: all sizes.
  virtual std::vector<uint32_t> BatchSizes() const { return {}; }

  // True if the program computes in the host's memory; false if a device with a memory of its own
  // copies values and gradients.
  virtual bool host_memory() const { return true; }

  // Returns the mean loss over the batch, and writes to `gradients` the loss's gradient with
  // respect to each trainable variable, but for a moving average the value observed in the batch.
  // `batch_key`, a pure function of the job's seed and the batch's identity, seeds dropout.
  // `gradients` has an empty span for an untrained variable. Results may be infinite or NaN.
  // INVALID_ARGUMENT: the batch does not fit the model (wrong shape, label out of range);
  // RESOURCE_EXHAUSTED: too little memory of the device; FAILED_PRECONDITION: no machine can
  // compute the batch; DATA_LOSS: the device is lost. After an error `gradients` is undefined.
  virtual absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                  ConstTensors values,
                                                  MutableTensors gradients) = 0;

  // How many batches ComputeSum takes, a power of two; 0: ComputeSum is not implemented.
  virtual size_t replicas() const { return 0; }
  // Computes all batches at once, each on a device of its own. The devices add up the gradients, in
  // any order. Returns the mean loss over each batch, and writes the sum of the batches' gradients.
  // Errors are those of ComputeGradients and do not tell which batch is at fault. INVALID_ARGUMENT
  // may also mean that the program cannot add up batches of these sizes.
  virtual absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> /*batches*/,
                                                         ConstTensors /*values*/,
                                                         MutableTensors /*sum*/) {
    return absl::UnimplementedError("the program adds up no gradients of several batches");
  }

  // Returns the states of the metrics over the last batch of ComputeGradients, computed in training
  // mode, in the order of metric_names(), and forgets them. The state of the loss, and of a metric
  // that is not computed in training, is empty. An empty list: no metric is computed in training.
  virtual std::vector<MetricState> TakeTrainingMetrics() { return {}; }

  // Sets a callback for all later ComputeGradients; nullptr removes the callback. ComputeGradients
  // calls `there`, on its caller's thread, with a variable whose gradient is complete in
  // `gradients` while other gradients are still being computed, usually first for layers near the
  // losses. When ComputeGradients returns OK, all gradients are complete, with or without a call of
  // `there`; when ComputeGradients fails, the gradients reported before must not be used.
  virtual void OnGradient(std::function<void(size_t variable)> there) { (void)there; }

  // Returns the table rows that a batch reads, or null if the model has no tables. INVALID_ARGUMENT
  // if the batch does not fit the model, or has an id outside its table. RESOURCE_EXHAUSTED if the
  // batch reads more rows than a program can number.
  virtual absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& /*batch*/) {
    return nullptr;
  }
  // Until the next call of UseRows, the arrays of tables passed to this program hold only `rows`,
  // and batches read no other rows. Null, the initial state: the arrays hold all rows.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}

  // Computes the state of every metric over the batch, in inference mode, and adds the states to
  // `states`; states[i] belongs to metric_names()[i].
  virtual absl::Status Evaluate(const Batch& batch, ConstTensors values,
                                std::vector<MetricState>& states) = 0;

  // Checks the contents of a batch of any size as ComputeGradients does, but computes nothing. Adds
  // the batch's lookups in vocabularies to `counts`.
  virtual absl::Status LookAt(const Batch& /*batch*/, LookupCounts& /*counts*/) {
    return absl::OkStatus();
  }

  // Returns a row-major column for each output of the model, computed in inference mode.
  virtual absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) = 0;
  // How often the program's process was lost since the last call of TakeLosses, and the reason of
  // the last loss, for people.
  struct Losses {
    uint64_t count = 0;
    std::string last;
  };
  virtual Losses TakeLosses() { return {}; }
  // Describes a probable mistake in a batch that is valid nonetheless, with file and record, for
  // people; "" if there is none.
  virtual std::string Doubt(const Batch& /*batch*/) const { return ""; }
  // Describes the model layer by layer, for people; empty if there are no layers.
  virtual std::string Summary() const { return ""; }
  // Describes the program's device memory in a line for people; empty if unknown.
  virtual std::string Memory() const { return ""; }
  // The multiply-adds of a training step, forward and backward, over one example; 0 if unknown.
  virtual int64_t MultiplyAdds() const { return 0; }
};

}  // namespace paracord
