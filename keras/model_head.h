// A head is an output of the model with a loss or metrics, and says which columns of the data are
// its targets and sample weights. Built once for a program; used by one thread.
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
  size_t target = 0;             // index in Batch::targets
  std::optional<size_t> weight;  // index in Batch::weights; nullopt: no sample weights
  Shape target_shape;
  int64_t targets_each = 0;  // how many numbers the targets of an example are
  int64_t classes = 0;       // targets are class indices below this number; 0: they are no indices
  bool has_loss = true;
  LossSpec loss;  // if has_loss is false, only `rows` and `columns` are set
  float loss_weight = 1;
  Graph::Value loss_value = 0;  // the value of which the loss is computed: the output or its logits
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

// Makes a head for each output with a loss or metrics; none if the job only predicts. A problem
// names the output, the loss or the metric.
std::vector<ModelHead> MakeHeads(const Job& job, const ModelSpec& model, Graph& graph,
                                 const Batch& schema, Problems& problems);
// Adds those problems of losses and metrics that do not depend on shapes. If `model` is null,
// because it cannot be read, names of outputs are not checked.
void CheckLearning(const Job& job, const ModelSpec* model, Problems& problems);

// Checks the shape of targets, the range of class indices, and that labels of the loss
// binary_crossentropy are from 0 to 1 (unless a label has weight 0 or the output has a mask).
// INVALID_ARGUMENT names file, row and label, or the shape that targets must have.
absl::Status CheckTargets(const ModelHead& head, const Batch& batch);

// If the loss is a focal or categorical crossentropy and a target is not from 0 to 1, returns a
// text that names the target; otherwise "".
std::string LabelDoubt(const ModelHead& head, const Batch& batch);

// Returns the loss of `output`, which is output number `index` of the model; null if it has none.
const NamedSpec* LossOf(const Job& job, const Endpoint& output, size_t index);
// Returns the metrics of output number `index` of the model. If the model has several outputs, the
// metrics without the name of an output belong to the outputs in order, one each, as in Keras.
std::vector<NamedSpec> MetricsOf(const Job& job, const ModelSpec& model, size_t index);

// Computes the weights of the rows of a loss (LossSpec: an example has a row for each of its steps)
// of `count` examples, from example `first` on. A weight is the product of the
// sample weight, `mask` (null: none), 0 if the target is ignore_class, and, with `by_class`, the
// class weight. Returns false, and leaves `weights` unchanged, if none of these factors is given.
bool RowWeights(const ModelHead& head, const Job& job, const Batch& batch, int64_t first,
                int64_t count, const float* mask, bool by_class, std::vector<float>& weights);

}  // namespace paracord
