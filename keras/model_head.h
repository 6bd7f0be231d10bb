// A trained or measured output of the model: loss, target and weight columns, metrics. Built once
// for a program; used by one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "keras/graph.h"
#include "keras/json.h"
#include "keras/losses.h"
#include "keras/metrics.h"

namespace paracord {

inline Shape ShapeOf(const Column& column) {
  return Shape(column.shape.begin(), column.shape.end());
}

struct ModelHead {
  std::string name;  // the output's name
  Graph::Value value = 0;
  Graph::Value mask = Graph::kNone;
  size_t target = 0;             // column of the batch's targets
  std::optional<size_t> weight;  // column of the batch's weights
  Shape target_shape;
  int64_t targets_each = 0;  // floats per example
  int64_t classes = 0;       // number of classes of class-index targets; 0: targets are numbers
  bool has_loss = true;
  LossSpec loss;  // rows and columns are set even without a loss
  float loss_weight = 1;
  Graph::Value loss_value = 0;  // the output, or its logits
  bool loss_from_logits = false;
  std::vector<MetricSpec> metrics;

  LossShape LossOver(int64_t examples) const {
    LossShape shape = loss.Over(examples);
    shape.from_logits = loss_from_logits;
    return shape;
  }
  const float* Targets(const Batch& batch, int64_t first) const {
    return batch.targets[target].values.data() + first * targets_each;
  }
};

// Makes a head for each output with a loss or metrics. Problems name the output, the loss or the
// metric.
std::vector<ModelHead> MakeHeads(const Job& job, const ModelSpec& model, Graph& graph,
                                 const Batch& schema, Problems& problems);
// Finds the problems of losses and metrics independent of shapes. `model` is null if its outputs
// are unknown.
void CheckLearning(const Job& job, const ModelSpec* model, Problems& problems);

// Checks the targets' shape, the range of class indices, and that labels of a binary crossentropy
// are from 0 to 1. INVALID_ARGUMENT names file, row and label.
absl::Status CheckTargets(const ModelHead& head, const Batch& batch);

// Names a valid but suspicious target: outside 0 to 1 where the loss takes probabilities. Returns
// "" without one.
std::string LabelDoubt(const ModelHead& head, const Batch& batch);

// Returns the loss of the model's output `index`; null without a loss.
const NamedSpec* LossOf(const Job& job, const Endpoint& output, size_t index);
// Returns the metrics of the model's output `index`. If there are several outputs, Keras takes
// metrics without the name of an output as a list by position.
std::vector<NamedSpec> MetricsOf(const Job& job, const ModelSpec& model, size_t index);

// Computes the weights of the rows of some examples: the sample's weight (and, with `by_class`, its
// class's) times `mask`, where present. Returns false, and leaves `weights` unchanged, if all are
// 1.
bool RowWeights(const ModelHead& head, const Job& job, const Batch& batch, int64_t first,
                int64_t count, const float* mask, bool by_class, std::vector<float>& weights);

}  // namespace paracord
