#include "keras/keras_program.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/flush_denormals.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "common/trace.h"

namespace paracord {
namespace {

// Waits at the end of a run, however it ends, until nothing is in flight.
class Run {
 public:
  explicit Run(Ops& ops) : ops_(ops) { ops_.Enter(); }
  ~Run() { ops_.Finish().IgnoreError(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  Ops& ops_;
};

}  // namespace

// Gives the other parts their awaited divisors, even if this part fails.
class OwedSum {
 public:
  explicit OwedSum(KerasProgram& program) : program_(program) {
    program_.owes_sum_ = program_.SumsDivisors() && !program_.rehearsing_;
  }
  ~OwedSum() { Pay(); }
  OwedSum(const OwedSum&) = delete;
  OwedSum& operator=(const OwedSum&) = delete;
  void Pay() {
    if (!std::exchange(program_.owes_sum_, false)) return;
    const std::vector<double> none(program_.heads_.size(), 0);
    program_.part_.sums->Sum(program_.part_.index, none).status().IgnoreError();
  }

 private:
  KerasProgram& program_;
};

// Takes part in all sums of a training step, even if this part fails.
class PartRun {
 public:
  explicit PartRun(KerasProgram& program) : program_(program), owed_(program) {
    if (program_.gradient_sum_) program_.gradient_sum_->Begin();
  }
  ~PartRun() {
    End();
    if (!program_.gradient_sum_ || !absl::IsDataLoss(program_.ops_->Finish())) return;
    program_.gradient_sum_->Lose();  // makes the caller abort the group
  }
  PartRun(const PartRun&) = delete;
  PartRun& operator=(const PartRun&) = delete;
  void End() {
    owed_.Pay();
    if (program_.gradient_sum_) program_.gradient_sum_->End();
  }

 private:
  KerasProgram& program_;
  OwedSum owed_;
};

namespace {

// True if the loss is divided by the rows left by a mask or ignore_class.
bool CountsRows(const ModelHead& head) {
  return !head.loss.sum && (head.mask != Graph::kNone || head.loss.ignore_class.has_value());
}

}  // namespace

bool KerasProgram::SumsDivisors() const {
  return part_.count > 1 && std::any_of(heads_.begin(), heads_.end(), CountsRows);
}

// The slices of this part; none if there are fewer examples than parts.
KerasProgram::Slices KerasProgram::OwnSlices(const Batch& batch) const {
  const int64_t all = std::min<int64_t>(SliceCount(), batch.examples);
  const auto index = static_cast<int64_t>(part_.index), count = static_cast<int64_t>(part_.count);
  return {all, all * index / count, all * (index + 1) / count};
}

GraphCall KerasProgram::Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key) {
  inputs_.clear();
  for (size_t i = 0; i < data_->columns().size(); ++i) {
    const size_t values = batch.inputs[data_->columns()[i]].values.size();
    const float* const all = batch_inputs_[i];
    const auto before = first * static_cast<int64_t>(values / batch.examples);
    inputs_.push_back(all == nullptr ? nullptr : all + before);
  }
  return {.batch = count,
          .inputs = inputs_,
          .parameters = parameters_,
          .key = key,
          .first_example = first,
          .share = static_cast<float>(count) / static_cast<float>(batch.examples),
          .regularizes = first + count == batch.examples,
          .callbacks = &callbacks_};
}

absl::StatusOr<const float*> KerasProgram::Mask(const ModelHead& head, int64_t examples) {
  if (head.mask == Graph::kNone) return nullptr;
  ASSIGN_OR_RETURN(const std::span<const float> mask,
                   ReadBack(*ops_, examples * head.loss.rows, graph_->value(head.mask), mask_));
  return mask.data();
}

// Puts the head's loss over the call's examples, before the division, into `sum`, and the gradient,
// divided and times the head's weight, into the graph. Class weights apply in training only, as in
// Keras.
absl::Status KerasProgram::HeadLoss(size_t index, const Batch& batch, const GraphCall& call,
                                    double each, bool gradient, double* sum) {
  const ModelHead& head = heads_[index];
  ASSIGN_OR_RETURN(const float* const mask, Mask(head, call.batch));
  const float* weights = nullptr;
  if (RowWeights(head, job_, batch, call.first_example, call.batch, mask, /*by_class=*/gradient,
                 weights_)) {
    ASSIGN_OR_RETURN(weights, copies_.weights.Upload(index, weights_));
  }
  const auto scale = static_cast<float>(each * static_cast<double>(head.loss_weight));
  ops_->Loss(head.LossOver(call.batch), graph_->value(head.loss_value),
             batch_targets_[index] + call.first_example * head.targets_each, weights, scale,
             gradient ? graph_->loss_gradient(head.loss_value) : nullptr, sum);
  return absl::OkStatus();
}

absl::Status KerasProgram::CountRowsOf(const Batch& batch, int64_t first, int64_t count,
                                       std::vector<double>& rows) {
  for (size_t h = 0; h < heads_.size(); ++h) {
    const ModelHead& head = heads_[h];
    if (!CountsRows(head)) continue;
    ASSIGN_OR_RETURN(const float* const mask, Mask(head, count));
    for (int64_t i = 0; i < count * head.loss.rows; ++i) {
      const bool ignored =
          head.loss.ignore_class &&
          head.Targets(batch, first)[i] == static_cast<float>(*head.loss.ignore_class);
      if (!ignored) rows[h] += mask == nullptr ? 1 : static_cast<double>(mask[i]);
    }
  }
  return absl::OkStatus();
}

void KerasProgram::DivideByRows(const Batch& batch, std::vector<double>& rows) const {
  for (size_t h = 0; h < heads_.size(); ++h) {
    const ModelHead& head = heads_[h];
    if (head.loss.sum) {
      rows[h] = 1;
    } else if (CountsRows(head)) {
      rows[h] += 1e-7;  // Keras' epsilon
    } else {
      rows[h] = static_cast<double>(batch.examples * head.loss.rows);
    }
  }
}

// Keras divides a loss by the number of rows, or of rows left by a mask. Masks are known only after
// a forward pass: a batch in slices needs a forward pass over all slices first.
absl::StatusOr<std::vector<double>> KerasProgram::Divisors(const Batch& batch, uint64_t key,
                                                           const Slices& slices, bool training) {
  std::vector<double> divisors(heads_.size(), 0);
  const int64_t examples = batch.examples;
  for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
    const int64_t first = examples * slice / slices.all;
    const int64_t count = examples * (slice + 1) / slices.all - first;
    if (MasksCount() && slices.count() > 1) {
      RETURN_IF_ERROR(graph_->Prepare(count));
      graph_->Forward(Slice(batch, first, count, key), training);
    }
    RETURN_IF_ERROR(CountRowsOf(batch, first, count, divisors));
  }
  if (std::exchange(owes_sum_, false)) {
    ASSIGN_OR_RETURN(divisors, part_.sums->Sum(part_.index, std::move(divisors)));
  }
  DivideByRows(batch, divisors);
  return divisors;
}

absl::Status KerasProgram::ComputeSlice(const Batch& batch, uint64_t key, const Slices& slices,
                                        int64_t slice, std::vector<double>& divisors,
                                        PendingSum& loss) {
  const int64_t examples = batch.examples;
  const int64_t first = examples * slice / slices.all;
  const int64_t count = examples * (slice + 1) / slices.all - first;
  RETURN_IF_ERROR(graph_->Prepare(count, PlaceOf(slice)));
  GraphCall call = Slice(batch, first, count, key);
  call.last = slice + 1 == slices.end;
  {
    const TraceSpan span("forward");
    graph_->Forward(call, /*training=*/true);
  }
  if (divisors.empty()) {
    ASSIGN_OR_RETURN(divisors, Divisors(batch, key, slices, /*training=*/true));
  }
  RETURN_IF_ERROR(AddTrainingMetrics(batch, call));
  const TraceSpan span("backward");
  RETURN_IF_ERROR(AddLosses(batch, call, divisors, loss));
  graph_->ActivityPenalties(call, loss);
  graph_->Backward(call, gradients_, /*add=*/slice > slices.begin, loss);
  return absl::OkStatus();
}

// Slices are simply added: the gradient of a slice is a part of the gradient of the batch's mean.
absl::Status KerasProgram::AddLosses(const Batch& batch, const GraphCall& call,
                                     std::span<const double> divisors, PendingSum& loss) {
  for (size_t h = 0; has_losses() && h < heads_.size(); ++h) {
    if (!heads_[h].has_loss) continue;
    const double each = 1 / divisors[h];
    RETURN_IF_ERROR(HeadLoss(h, batch, call, each, true,
                             loss.Add(each * static_cast<double>(heads_[h].loss_weight))));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> KerasProgram::ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                      ConstTensors values,
                                                      MutableTensors gradients) {
  const FlushDenormals flush;
  PendingSum loss;
  training_metrics_.clear();
  const Run run(*ops_);
  PartRun part(*this);
  if (data_->tables().any() && !data_->has_rows()) RETURN_IF_ERROR(graph_->ReserveAllRows());
  RETURN_IF_ERROR(CheckBatch(batch, /*with_targets=*/true));
  RETURN_IF_ERROR(BindParameters(values));
  RETURN_IF_ERROR(BindGradients(gradients));
  RETURN_IF_ERROR(BindBatch(batch, /*with_targets=*/true));
  const Slices slices = OwnSlices(batch);
  std::vector<double> divisors;
  if (slices.count() != 1) {
    ASSIGN_OR_RETURN(divisors, Divisors(batch, batch_key, slices, /*training=*/true));
  }
  for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
    RETURN_IF_ERROR(ComputeSlice(batch, batch_key, slices, slice, divisors, loss));
  }
  const double unless_nan = data_->NanUnlessFinite(batch);  // computed while the device works
  part.End();
  while (const std::optional<size_t> variable = ops_->AwaitDownload()) there_(*variable);
  RETURN_IF_ERROR(ops_->Finish());
  TraceDevice();
  return unless_nan + loss.Total();
}

void KerasProgram::TraceDevice() {
  for (const DeviceSpan& span : ops_->TakeSpans(TraceOn())) {
    TraceDone(span.name, span.begin_us, span.end_us, DeviceTrack(part_.rank, span.lane));
  }
}

absl::Status KerasProgram::AddZeros() {
  const Run run(*ops_);
  PartRun part(*this);
  std::vector<GradientSum::Gradient> arrays(variables().size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!variables()[i].trainable() || !Adds(variables()[i])) continue;
    arrays[i].n = graph_->FloatsOf(i);
    ASSIGN_OR_RETURN(arrays[i].data, copies_.gradients.Keep(i, static_cast<size_t>(arrays[i].n)));
  }
  gradient_sum_->SetGradients(std::move(arrays));
  part.End();
  return ops_->Finish();
}

// Adds the call's examples to the states of the head's metrics, from index `at` on.
absl::Status KerasProgram::AddMetrics(const ModelHead& head, const Batch& batch,
                                      const GraphCall& call, std::vector<MetricState>& to,
                                      size_t& at) {
  if (head.metrics.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::span<const float> outputs,
                   ReadBack(*ops_, call.batch * Elements(graph_->shape(head.value)),
                            graph_->value(head.value), output_));
  ASSIGN_OR_RETURN(const float* const mask, Mask(head, call.batch));
  for (const MetricSpec& metric : head.metrics) {
    ModelHead plain = head;
    if (!metric.weighted) plain.weight.reset();
    plain.loss.ignore_class.reset();
    const bool weighted = RowWeights(plain, job_, batch, call.first_example, call.batch, mask,
                                     /*by_class=*/false, weights_);
    AddToMetric(metric, metric.rows * call.batch, outputs.data(),
                head.Targets(batch, call.first_example),
                weighted ? std::span<const float>(weights_) : std::span<const float>(), to[at++]);
  }
  return absl::OkStatus();
}

// Adds the call's examples to the states of all metrics, before the backward pass writes over the
// outputs.
absl::Status KerasProgram::AddTrainingMetrics(const Batch& batch, const GraphCall& call) {
  if (rehearsing_ || metric_names_.size() == 1) return absl::OkStatus();
  training_metrics_.resize(metric_names_.size());
  size_t at = 1;
  for (const ModelHead& head : heads_) {
    if (head.has_loss && heads_.size() > 1) ++at;
    if (MeasuredInTraining(head)) {
      RETURN_IF_ERROR(AddMetrics(head, batch, call, training_metrics_, at));
    } else {
      at += head.metrics.size();
    }
  }
  return absl::OkStatus();
}

// Evaluates in the slices of training, whose memory exists.
absl::Status KerasProgram::Evaluate(const Batch& batch, ConstTensors values,
                                    std::vector<MetricState>& states) {
  const FlushDenormals flush;
  PendingSum penalties;
  std::vector<PendingSum> losses(heads_.size());
  const Run run(*ops_);
  OwedSum owed(*this);
  RETURN_IF_ERROR(CheckBatch(batch, /*with_targets=*/true));
  RETURN_IF_ERROR(BindParameters(values));
  RETURN_IF_ERROR(BindBatch(batch, /*with_targets=*/true));
  const int64_t examples = batch.examples;
  const Slices slices = OwnSlices(batch);
  std::vector<double> divisors;
  if (slices.count() != 1) {
    ASSIGN_OR_RETURN(divisors, Divisors(batch, 0, slices, /*training=*/false));
  }
  std::vector<MetricState> added(metric_names_.size());
  for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
    const int64_t first = examples * slice / slices.all;
    const int64_t count = examples * (slice + 1) / slices.all - first;
    RETURN_IF_ERROR(graph_->Prepare(count));
    const GraphCall call = Slice(batch, first, count, 0);
    graph_->Forward(call, /*training=*/false);
    if (divisors.empty()) {
      ASSIGN_OR_RETURN(divisors, Divisors(batch, 0, slices, /*training=*/false));
    }
    if (slice == 0) graph_->Penalties(call, penalties);
    graph_->ActivityPenalties(call, penalties);
    RETURN_IF_ERROR(EvaluateSlice(batch, call, divisors, losses, added));
  }
  RETURN_IF_ERROR(ops_->Finish());
  AddEvaluation(batch, penalties.Total(), losses, added, states);
  return absl::OkStatus();
}

absl::Status KerasProgram::EvaluateSlice(const Batch& batch, const GraphCall& call,
                                         std::span<const double> divisors,
                                         std::vector<PendingSum>& losses,
                                         std::vector<MetricState>& added) {
  size_t at = 1;
  for (size_t h = 0; has_losses() && h < heads_.size(); ++h) {
    const ModelHead& head = heads_[h];
    if (head.has_loss) {
      const double each = 1 / divisors[h];
      RETURN_IF_ERROR(HeadLoss(h, batch, call, each, false, losses[h].Add(each)));
      if (heads_.size() > 1) ++at;
    }
    RETURN_IF_ERROR(AddMetrics(head, batch, call, added, at));
  }
  return absl::OkStatus();
}

void KerasProgram::AddEvaluation(const Batch& batch, double penalties,
                                 const std::vector<PendingSum>& losses,
                                 std::vector<MetricState>& added,
                                 std::vector<MetricState>& states) const {
  const int64_t examples = batch.examples;
  const auto mean = [&](size_t i, double value) {
    added[i].add_values(value * static_cast<double>(examples));
    // Counted by the first part only.
    added[i].add_values(part_.index == 0 ? static_cast<double>(examples) : 0);
  };
  const double unless_nan = data_->NanUnlessFinite(batch);  // metrics of predictions still count
  double loss = unless_nan + penalties;
  size_t at = 1;
  for (size_t h = 0; h < heads_.size(); ++h) {
    const double own = losses[h].Total();
    loss += own * static_cast<double>(heads_[h].loss_weight);
    if (heads_[h].has_loss && heads_.size() > 1) mean(at++, unless_nan + own);
    at += heads_[h].metrics.size();
  }
  mean(0, loss);
  states.resize(added.size());
  for (size_t m = 0; m < added.size(); ++m) MergeMetric(added[m], states[m]);
}

absl::StatusOr<std::vector<Column>> KerasProgram::Predict(const Batch& batch, ConstTensors values) {
  const FlushDenormals flush;
  const Run run(*ops_);
  RETURN_IF_ERROR(CheckBatch(batch, /*with_targets=*/false));
  RETURN_IF_ERROR(BindParameters(values));
  RETURN_IF_ERROR(BindBatch(batch, /*with_targets=*/false));
  RETURN_IF_ERROR(graph_->Prepare(batch.examples));
  graph_->Forward(Slice(batch, 0, batch.examples, 0), /*training=*/false);
  RETURN_IF_ERROR(ops_->Finish());
  return OutputsOf(batch);
}

// The outputs of a whole batch after Forward.
absl::StatusOr<std::vector<Column>> KerasProgram::OutputsOf(const Batch& batch) {
  std::vector<Column> outputs;
  for (size_t i = 0; i < output_names_.size(); ++i) {
    const Graph::Value value = graph_->outputs()[i];
    const Shape& shape = graph_->shape(value);
    ASSIGN_OR_RETURN(
        const std::span<const float> output,
        ReadBack(*ops_, batch.examples * Elements(shape), graph_->value(value), output_));
    outputs.push_back(
        {output_names_[i], {shape.begin(), shape.end()}, {output.begin(), output.end()}});
    data_->HideRows(batch, outputs.back().values);
  }
  return outputs;
}

absl::StatusOr<std::shared_ptr<const TableRows>> KerasProgram::RowsOf(const Batch& batch) {
  if (!data_->tables().any()) return nullptr;
  RETURN_IF_ERROR(data_->CheckShapes(batch));
  ASSIGN_OR_RETURN(std::shared_ptr<const NumberedRows> rows, data_->tables().RowsOf(batch));
  return rows;
}

void KerasProgram::UseRows(std::shared_ptr<const TableRows> rows) {
  graph_->UseRows(data_->UseRows(std::dynamic_pointer_cast<const NumberedRows>(rows)));
}

absl::Status KerasProgram::LookAt(const Batch& batch, LookupCounts& /*counts*/) {
  RETURN_IF_ERROR(CheckBatch(batch, /*with_targets=*/true));
  bool growing = false;
  for (size_t i = 0; i < data_->columns().size(); ++i) {
    RETURN_IF_ERROR(data_->Values(batch, i).status());
    growing = growing || data_->tables().growing(i);
  }
  return growing ? RowsOf(batch).status() : absl::OkStatus();
}

}  // namespace paracord
