// The interface between the trainer and the code that computes gradients: parameters in, gradients
// and metrics out. Keras models on the CPU and on GPUs implement it, and the simulator's counting
// model. The trainer calls it from one thread at a time.
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

// One float32 array for each variable of variables(), in that order, each of the variable's size,
// or of the size of some of its rows (TableRows).
using ConstTensors = std::span<const std::span<const float>>;
using MutableTensors = std::span<const std::span<float>>;

// The rows that a batch reads of each table (VariableSpec.table). A program may add to it what it
// computes with them.
struct TableRows {
  virtual ~TableRows() = default;
  // The ids by variable, distinct and ascending; those of a growing table lie shard after shard
  // (config/partitions.h). They are empty where the variable is no table.
  std::vector<std::vector<uint64_t>> ids;
  // The places, by variable, where the ids of each shard of a growing table begin, and the end of
  // the last one's; empty, also as a whole, where there are none.
  std::vector<std::vector<uint32_t>> shards;

  // Whether the variable's ids lie shard after shard.
  bool has_shards(size_t variable) const {
    return variable < shards.size() && !shards[variable].empty();
  }
};

// Counts, for each layer that looks values up in a vocabulary, the values and those of them that
// the vocabulary lacks.
struct LookupCount {
  uint64_t values = 0, unknown = 0;
  std::string example;  // an unknown value, for people
};
using LookupCounts = std::map<std::string, LookupCount>;

class GradientProgram {
 public:
  virtual ~GradientProgram() = default;

  // The model's variables. They never change.
  virtual const std::vector<VariableSpec>& variables() const = 0;
  // The names of an evaluation's results: "loss" first, then the job's metrics.
  virtual const std::vector<std::string>& metric_names() const = 0;

  // What it predicts, as "NAME (SHAPE)", where a program of the job declares that; empty where the
  // job's own model says it.
  virtual std::vector<std::string> Outputs() const { return {}; }

  // The numbers of examples that it can compute; empty: any.
  virtual std::vector<uint32_t> BatchSizes() const { return {}; }

  // True if values are read and gradients written in place; false if a device copies them.
  virtual bool host_memory() const { return true; }

  // Returns the mean loss over the batch and writes its gradient by every trainable variable; for a
  // moving average, the observation that it is updated with. `batch_key` is a pure function of the
  // job's seed and the batch's identity, and seeds dropout. `gradients` has an empty span for a
  // variable that is not trained. Results are not checked for finite values. INVALID_ARGUMENT means
  // that the batch does not fit the model (shape, label out of range); RESOURCE_EXHAUSTED that the
  // device has too little memory; DATA_LOSS that the device is lost. After an error the contents of
  // `gradients` are undefined.
  virtual absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                  ConstTensors values,
                                                  MutableTensors gradients) = 0;

  // Takes the states of the metrics over the batch that ComputeGradients computed last, in training
  // mode and in the order of metric_names(). A state without values, or none at all, is of a metric
  // that is not known then; that of the loss is never known here.
  virtual std::vector<MetricState> TakeTrainingMetrics() { return {}; }

  // Sets a callback for all later ComputeGradients, until it is set to nullptr. On the thread of
  // ComputeGradients, `there` is called with each variable whose gradient is complete while others
  // are still computed, those near the losses first (on a GPU: whose download is complete). The
  // other gradients are complete when ComputeGradients returns, with or without a call. If
  // ComputeGradients fails, the gradients reported before are void, too.
  virtual void OnGradient(std::function<void(size_t variable)> there) { (void)there; }

  // The rows that a batch reads, or null if the model has no tables. INVALID_ARGUMENT names the
  // record whose id is not in its table.
  virtual absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& /*batch*/) {
    return nullptr;
  }
  // From now on, until it is set to something else, batches are those that `rows` are of, and the
  // arrays of tables have these rows alone. Null, as at first: they have all rows.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}

  // Adds the state of every metric over the batch, in inference mode, to `states`; states[i]
  // belongs to metric_names()[i], and states of batches merge by addition.
  virtual absl::Status Evaluate(const Batch& batch, ConstTensors values,
                                std::vector<MetricState>& states) = 0;

  // Checks a batch like ComputeGradients, with the same INVALID_ARGUMENT, but computes nothing;
  // adds the batch's lookups to `counts`. Called when a job is checked.
  virtual absl::Status LookAt(const Batch& /*batch*/, LookupCounts& /*counts*/) {
    return absl::OkStatus();
  }

  // Computes the model's outputs in inference mode, row-major and with their names; for `paracord
  // compute`.
  virtual absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) = 0;
  // How often what computes was lost and started again since the last call of this, and the last
  // time, for people.
  struct Losses {
    uint64_t count = 0;
    std::string last;
  };
  virtual Losses TakeLosses() { return {}; }
  // Names, with file and record, something in a batch that is probably a mistake although it is no
  // error, for people; "" if there is nothing.
  virtual std::string Doubt(const Batch& /*batch*/) const { return ""; }
  // Describes the model layer by layer, for people; empty if there are no layers.
  virtual std::string Summary() const { return ""; }
  // Describes the device memory that the program uses, in one line for people; empty if that is not
  // known.
  virtual std::string Memory() const { return ""; }
  // The multiply-adds of a training step, forward and backward, over one example; 0 if they are not
  // known.
  virtual int64_t MultiplyAdds() const { return 0; }
};

}  // namespace paracord
