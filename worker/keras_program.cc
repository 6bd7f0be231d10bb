// The Keras model as a GradientProgram: graph, loss and metrics over one device's operations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/flush_denormals.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "worker/gradient_program.h"
#include "worker/graph.h"
#include "worker/keras_json.h"
#include "worker/losses.h"
#include "worker/ops_cpu.h"

namespace paracord {
namespace {

Shape ShapeOf(const Column& column) { return Shape(column.shape.begin(), column.shape.end()); }

absl::Status CheckColumn(const std::string& what, const Column& column) {
  for (const uint64_t dim : column.shape) {
    if (dim == 0 || dim > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": shape ", ShapeName(ShapeOf(column)), " is not usable"));
    }
  }
  return CheckElements(ShapeOf(column));
}

// The data's columns in the order of the model's inputs.
absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema) {
  if (model.inputs.size() == 1 && schema.inputs.size() == 1) return std::vector<size_t>{0};
  std::vector<size_t> columns;
  for (const size_t node : model.inputs) {
    const std::string& name = model.layers[model.nodes[node].layer].name;
    const auto at = std::find_if(schema.inputs.begin(), schema.inputs.end(),
                                 [&](const Column& column) { return column.name == name; });
    if (at == schema.inputs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer \"", name, "\" (InputLayer): the data has no input of that name"));
    }
    columns.push_back(static_cast<size_t>(at - schema.inputs.begin()));
  }
  return columns;
}

class KerasProgram : public GradientProgram {
 public:
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops)
      : accumulate_(std::max<uint32_t>(job.accumulate, 1)), ops_(std::move(ops)) {}

  absl::Status Init(const Job& job, const Batch& schema);

  const std::vector<VariableSpec>& variables() const override { return graph_->variables(); }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<Column> Predict(const Batch& batch, ConstTensors values) override;

 private:
  absl::Status CheckInputs(const Batch& batch) const;
  absl::Status CheckTargets(const Batch& batch) const;
  absl::Status BindParameters(ConstTensors values);
  absl::Status BindGradients(MutableTensors gradients);
  // A run over examples [first, first + count) of the batch.
  bool InputsFinite(const Batch& batch) const;
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  const float* Targets(const Batch& batch, int64_t first) const {
    return batch.targets[0].values.data() + first * targets_each_;
  }
  LossShape LossOver(int64_t examples) const {
    return {loss_.kind, loss_from_logits_, loss_.rows * examples, loss_.columns};
  }

  const int64_t accumulate_;
  const std::unique_ptr<Ops> ops_;
  std::unique_ptr<Graph> graph_;  // before ops_ goes
  std::vector<Column> inputs_schema_;
  std::vector<size_t> input_columns_;  // of each input of the graph
  int64_t targets_each_ = 0;           // floats an example
  Shape targets_shape_;
  LossSpec loss_;
  Graph::Value loss_value_ = 0;
  bool loss_from_logits_ = false;
  int64_t classes_ = 0;  // targets are indices below; 0: they are not
  std::vector<MetricSpec> metrics_;
  std::vector<std::string> metric_names_{"loss"};
  // Of a run.
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
};

absl::Status KerasProgram::Init(const Job& job, const Batch& schema) {
  ASSIGN_OR_RETURN(const ModelSpec model, ReadKerasModel(job.model));
  if (schema.targets.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data has ", schema.targets.size(), " targets; supported: 1"));
  }
  for (const Column& column : schema.inputs) RETURN_IF_ERROR(CheckColumn("data: input", column));
  RETURN_IF_ERROR(CheckColumn("data: targets", schema.targets[0]));
  ASSIGN_OR_RETURN(input_columns_, MatchInputs(model, schema));
  inputs_schema_ = schema.inputs;
  std::vector<Shape> shapes;
  for (const size_t column : input_columns_) shapes.push_back(ShapeOf(schema.inputs[column]));
  ASSIGN_OR_RETURN(graph_, Graph::Build(*ops_, model, shapes));

  const Shape& output = graph_->shape(graph_->output());
  targets_shape_ = ShapeOf(schema.targets[0]);
  targets_each_ = Elements(targets_shape_);
  ASSIGN_OR_RETURN(loss_, ResolveLoss(job.loss, output, targets_shape_));
  for (const NamedSpec& spec : job.metrics) {
    ASSIGN_OR_RETURN(MetricSpec metric, ResolveMetric(spec, output, targets_shape_));
    metric_names_.push_back(metric.name);
    metrics_.push_back(std::move(metric));
  }
  const bool sparse_metric = std::any_of(metrics_.begin(), metrics_.end(),
                                         [](const MetricSpec& m) { return IsSparse(m); });
  if (IsSparse(loss_) || sparse_metric) classes_ = loss_.columns;

  // Keras takes the logits where it can see them, which loses no digits.
  loss_value_ = graph_->output();
  loss_from_logits_ = loss_.from_logits;
  const bool binary = loss_.kind == LossKind::kBinaryCrossentropy;
  if (binary || IsSparse(loss_) || loss_.kind == LossKind::kCategoricalCrossentropy) {
    const auto kind = binary ? ActivationKind::kSigmoid : ActivationKind::kSoftmax;
    if (const auto logits = graph_->Before(kind)) {
      loss_value_ = *logits;
      loss_from_logits_ = true;
    }
  }
  graph_->PlanTraining(loss_value_, accumulate_ > 1);
  const int64_t usual = (job.batch + accumulate_ - 1) / accumulate_;
  return graph_->Prepare(std::max<int64_t>(usual, 1));
}

absl::Status KerasProgram::CheckInputs(const Batch& batch) const {
  if (batch.examples == 0) return absl::InvalidArgumentError("the batch has no examples");
  if (batch.inputs.size() != inputs_schema_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", batch.inputs.size(),
                                                   " inputs, the model was built for ",
                                                   inputs_schema_.size()));
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const Column& column = batch.inputs[i];
    const auto each = static_cast<uint64_t>(Elements(ShapeOf(inputs_schema_[i])));
    if (column.shape != inputs_schema_[i].shape || column.values.size() != batch.examples * each) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " of the batch has examples of shape ", ShapeName(ShapeOf(column)),
          ", the model was built for ", ShapeName(ShapeOf(inputs_schema_[i]))));
    }
  }
  return absl::OkStatus();
}

absl::Status KerasProgram::CheckTargets(const Batch& batch) const {
  if (batch.targets.size() != 1 || ShapeOf(batch.targets[0]) != targets_shape_ ||
      batch.targets[0].values.size() !=
          batch.examples * static_cast<uint64_t>(Elements(targets_shape_))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch's targets are not of shape ", ShapeName(targets_shape_)));
  }
  if (classes_ == 0) return absl::OkStatus();
  const std::vector<float>& labels = batch.targets[0].values;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    if (label >= 0 && label < static_cast<float>(classes_) && label == std::floor(label)) continue;
    const size_t example = i / static_cast<size_t>(targets_each_);
    const std::string where = batch.source != nullptr && example < batch.records.size()
                                  ? batch.source->Where(batch.records[example])
                                  : absl::StrCat("example ", example, " of the batch");
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": label ", label, " is not a class of the model, 0 to ", classes_ - 1));
  }
  return absl::OkStatus();
}

absl::Status KerasProgram::BindParameters(ConstTensors values) {
  const std::vector<VariableSpec>& all = variables();
  parameters_.clear();
  for (size_t i = 0; i < values.size() && i < all.size(); ++i) {
    if (values[i].size() != static_cast<size_t>(VariableElements(all[i]))) break;
    parameters_.push_back(values[i].data());
  }
  if (parameters_.size() == all.size() && values.size() == all.size()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("values do not fit the model's variables, from number ", parameters_.size()));
}

absl::Status KerasProgram::BindGradients(MutableTensors gradients) {
  const std::vector<VariableSpec>& all = variables();
  gradients_.clear();
  for (size_t i = 0; i < gradients.size() && i < all.size(); ++i) {
    const size_t size = all[i].trainable() ? static_cast<size_t>(VariableElements(all[i])) : 0;
    if (gradients[i].size() != size) break;
    gradients_.push_back(size == 0 ? nullptr : gradients[i].data());
  }
  if (gradients_.size() == all.size() && gradients.size() == all.size()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("gradients do not fit the model's variables, from number ", gradients_.size()));
}

GraphCall KerasProgram::Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key) {
  inputs_.clear();
  for (const size_t column : input_columns_) {
    const std::vector<float>& values = batch.inputs[column].values;
    const int64_t each = static_cast<int64_t>(values.size() / batch.examples);
    inputs_.push_back(values.data() + first * each);
  }
  return {.batch = count,
          .inputs = inputs_,
          .parameters = parameters_,
          .key = key,
          .first_example = first};
}

// oneDNN's fused ReLU and its max-pooling take a NaN for a small number: what goes into a forward
// pass has to be looked at before. (In training the gradients of the first layer keep it.)
bool KerasProgram::InputsFinite(const Batch& batch) const {
  return std::all_of(input_columns_.begin(), input_columns_.end(),
                     [&](size_t column) { return AllFinite(batch.inputs[column].values); });
}

absl::StatusOr<double> KerasProgram::ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                      ConstTensors values,
                                                      MutableTensors gradients) {
  const FlushDenormals flush;
  ops_->Enter();
  RETURN_IF_ERROR(CheckInputs(batch));
  RETURN_IF_ERROR(CheckTargets(batch));
  RETURN_IF_ERROR(BindParameters(values));
  RETURN_IF_ERROR(BindGradients(gradients));
  const int64_t examples = batch.examples;
  const int64_t slices = std::min(accumulate_, examples);
  // Gradients of slices are parts of the mean over the whole batch, so they only need adding.
  const double each = 1.0 / static_cast<double>(examples * loss_.rows);
  double sum = 0;
  for (int64_t slice = 0; slice < slices; ++slice) {
    const int64_t first = examples * slice / slices;
    const int64_t count = examples * (slice + 1) / slices - first;
    RETURN_IF_ERROR(graph_->Prepare(count));
    const GraphCall call = Slice(batch, first, count, batch_key);
    graph_->Forward(call, /*training=*/true);
    sum += ops_->Loss(LossOver(count), graph_->value(loss_value_), Targets(batch, first),
                      static_cast<float>(each), graph_->loss_gradient());
    graph_->Backward(call, gradients_, /*add=*/slice > 0);
  }
  RETURN_IF_ERROR(ops_->Finish());
  return sum * each;
}

absl::Status KerasProgram::Evaluate(const Batch& batch, ConstTensors values,
                                    std::vector<MetricState>& states) {
  const FlushDenormals flush;
  ops_->Enter();
  RETURN_IF_ERROR(CheckInputs(batch));
  RETURN_IF_ERROR(CheckTargets(batch));
  RETURN_IF_ERROR(BindParameters(values));
  const int64_t examples = batch.examples;
  RETURN_IF_ERROR(graph_->Prepare(examples));
  graph_->Forward(Slice(batch, 0, examples, 0), /*training=*/false);
  const float* targets = Targets(batch, 0);
  const float* outputs = graph_->value(graph_->output());
  // A loss over an input that is not finite is none, as in Keras; a prediction still counts.
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const double unless_nan = InputsFinite(batch) ? 0 : kNaN;
  std::vector<MetricState> added(metric_names_.size());
  const auto set = [&](size_t i, double sum, int64_t rows) {
    added[i].add_values(sum);
    added[i].add_values(static_cast<double>(rows));
  };
  set(0,
      unless_nan + ops_->Loss(LossOver(examples), graph_->value(loss_value_), targets, 0, nullptr),
      loss_.rows * examples);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const MetricSpec& m = metrics_[i];
    const int64_t rows = m.rows * examples;
    set(i + 1,
        m.is_match ? ops_->CountMatches(m.match, rows, m.columns, m.threshold, outputs, targets)
                   : unless_nan +
                         ops_->Loss({m.loss, false, rows, m.columns}, outputs, targets, 0, nullptr),
        rows);
  }
  RETURN_IF_ERROR(ops_->Finish());
  states.resize(added.size());
  for (size_t i = 0; i < added.size(); ++i) MergeMetric(added[i], states[i]);
  return absl::OkStatus();
}

absl::StatusOr<Column> KerasProgram::Predict(const Batch& batch, ConstTensors values) {
  const FlushDenormals flush;
  ops_->Enter();
  RETURN_IF_ERROR(CheckInputs(batch));
  RETURN_IF_ERROR(BindParameters(values));
  RETURN_IF_ERROR(graph_->Prepare(batch.examples));
  graph_->Forward(Slice(batch, 0, batch.examples, 0), /*training=*/false);
  RETURN_IF_ERROR(ops_->Finish());
  const Shape& shape = graph_->shape(graph_->output());
  const float* output = graph_->value(graph_->output());
  const auto each = static_cast<size_t>(Elements(shape));
  Column predicted{"", {shape.begin(), shape.end()}, {output, output + batch.examples * each}};
  for (const size_t column : input_columns_) {
    const std::span<const float> input(batch.inputs[column].values);
    const size_t size = input.size() / batch.examples;
    for (size_t e = 0; e < batch.examples; ++e) {
      if (AllFinite(input.subspan(e * size, size))) continue;
      std::fill_n(predicted.values.begin() + static_cast<std::ptrdiff_t>(e * each), each,
                  std::numeric_limits<float>::quiet_NaN());
    }
  }
  return predicted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientProgram>> BuildKerasProgram(const Job& job,
                                                                   const Batch& schema,
                                                                   int threads) {
  auto program = std::make_unique<KerasProgram>(job, MakeCpuOps(std::max(threads, 1)));
  RETURN_IF_ERROR(program->Init(job, schema));
  return program;
}

}  // namespace paracord
