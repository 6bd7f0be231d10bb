#include "keras/scored_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/unknown_name.h"
#include "keras/losses.h"
#include "keras/metrics.h"
#include "keras/model_head.h"

namespace paracord {
namespace {

bool IsMeasured(const ModelHead& head) { return head.has_loss || !head.metrics.empty(); }

class ScoredProgram : public GradientProgram {
 public:
  ScoredProgram(const Job& job, std::unique_ptr<GradientProgram> program,
                std::vector<ProgramOutput> outputs)
      : job_(job), program_(std::move(program)), outputs_(std::move(outputs)) {}

  absl::Status Init(const Batch& schema);

  const std::vector<VariableSpec>& variables() const override { return program_->variables(); }
  const std::vector<std::string>& metric_names() const override { return names_; }
  std::vector<std::string> Outputs() const override {
    std::vector<std::string> texts;
    for (const ProgramOutput& output : outputs_) {
      texts.push_back(absl::StrCat(output.name, " ", ShapeName(output.shape)));
    }
    return texts;
  }
  std::vector<uint32_t> BatchSizes() const override { return program_->BatchSizes(); }
  std::string Summary() const override { return program_->Summary(); }
  std::string Memory() const override { return program_->Memory(); }
  void OnGradient(std::function<void(size_t)> there) override {
    program_->OnGradient(std::move(there));
  }
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    return program_->RowsOf(batch);
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    program_->UseRows(std::move(rows));
  }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override {
    return program_->ComputeGradients(batch, batch_key, values, gradients);
  }
  size_t replicas() const override { return program_->replicas(); }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> batches,
                                                 ConstTensors values, MutableTensors sum) override {
    return program_->ComputeSum(batches, values, sum);
  }
  Losses TakeLosses() override { return program_->TakeLosses(); }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    return program_->Predict(batch, values);
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    RETURN_IF_ERROR(program_->LookAt(batch, counts));
    return CheckAllTargets(batch);
  }

 private:
  // Adds an output of the program with its measurements; metrics are in the order of names_.
  void AddHead(size_t output, const Batch& schema, Problems& problems);
  void AddMetric(const NamedSpec& spec, ModelHead& head, Problems& problems);
  bool Means(const NamedSpec& spec, size_t output) const;
  absl::Status CheckAllTargets(const Batch& batch) const;
  // INVALID_ARGUMENT names a prediction that is no probability, and the metric that needs one: a
  // program predicting logits would get wrong scores.
  absl::Status CheckPredictions(const ModelHead& head, const Batch& batch,
                                const Column& output) const;
  void CheckNames(Problems& problems) const;
  void AddStates(const ModelHead& head, const Batch& batch, const Column& output,
                 std::vector<MetricState>& states, size_t& at);

  const Job job_;
  const std::unique_ptr<GradientProgram> program_;
  const std::vector<ProgramOutput> outputs_;
  std::vector<std::string> names_;
  std::vector<ModelHead> heads_;  // one per output, in order
};

bool ScoredProgram::Means(const NamedSpec& spec, size_t output) const {
  if (spec.output.empty()) return outputs_.size() == 1;
  return spec.output == outputs_[output].name || spec.output == absl::StrCat("#", output);
}

void ScoredProgram::CheckNames(Problems& problems) const {
  const auto check = [&](const char* key, const NamedSpec& spec) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (Means(spec, i)) return;
    }
    problems.Add(key, outputs_.empty()
                          ? absl::StrCat("\"", spec.name,
                                         "\" is measured of what the program predicts, and it "
                                         "declares no outputs")
                          : absl::StrCat("\"", spec.name, "\" must say of which of the program's ",
                                         outputs_.size(), " outputs"));
  };
  for (const NamedSpec& metric : job_.metrics) check("metrics", metric);
  if (!job_.loss.name.empty()) check("loss", job_.loss);
}

void ScoredProgram::AddMetric(const NamedSpec& spec, ModelHead& head, Problems& problems) {
  absl::StatusOr<MetricSpec> metric =
      ResolveMetric(spec, outputs_[heads_.size()].shape, head.target_shape);
  if (!metric.ok()) return problems.Add("", std::string(metric.status().message()));
  if (IsSparse(*metric)) head.classes = RowsAndColumns(outputs_[heads_.size()].shape).columns;
  if (outputs_.size() > 1) metric->name = absl::StrCat(head.name, "_", metric->name);
  if (std::find(names_.begin(), names_.end(), metric->name) != names_.end()) {
    return problems.Add("metrics", absl::StrCat("has \"", metric->name,
                                                "\" twice, or the program evaluates it itself"));
  }
  names_.push_back(metric->name);
  head.metrics.push_back(*std::move(metric));
}

void ScoredProgram::AddHead(size_t output, const Batch& schema, Problems& problems) {
  ModelHead head;
  head.name = outputs_[output].name;
  head.has_loss = false;
  const auto column = [&](const std::vector<Column>& columns) -> std::optional<size_t> {
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool only = columns.size() == 1 && (outputs_.size() == 1 || columns[i].name.empty());
      if (columns[i].name == head.name || only) return i;
    }
    return std::nullopt;
  };
  const bool loss = !job_.loss.name.empty() && Means(job_.loss, output);
  const bool measured = loss || std::any_of(job_.metrics.begin(), job_.metrics.end(),
                                            [&](const auto& m) { return Means(m, output); });
  const std::optional<size_t> target = column(schema.targets);
  if (measured && !target.has_value()) {
    problems.Add("", absl::StrCat("the data has no targets for output \"", head.name, "\""));
  } else if (measured) {
    head.target = *target;
    head.target_shape = ShapeOf(schema.targets[*target]);
    head.targets_each = Elements(head.target_shape);
    head.weight = column(schema.weights);
    const RowsAndColumns size(outputs_[output].shape);
    head.loss.rows = size.rows;
    head.loss.columns = size.columns;
    if (loss) {
      absl::StatusOr<LossSpec> resolved =
          ResolveLoss(job_.loss, outputs_[output].shape, head.target_shape);
      if (!resolved.ok()) problems.Add("", std::string(resolved.status().message()));
      if (resolved.ok() && IsSparse(*resolved)) head.classes = size.columns;
      if (resolved.ok()) head.loss = *std::move(resolved);
      head.has_loss = true;
    }
    for (const NamedSpec& metric : job_.metrics) {
      if (Means(metric, output)) AddMetric(metric, head, problems);
    }
  }
  heads_.push_back(std::move(head));
}

absl::Status ScoredProgram::Init(const Batch& schema) {
  Problems problems;
  names_ = program_->metric_names();
  if (!job_.losses.empty()) problems.Add("loss", "of several outputs is the program's to compute");
  if (!names_.empty() && !job_.loss.name.empty()) {
    problems.Add("loss", "is evaluated by the program itself: leave it out of the job");
  } else if (names_.empty() && job_.loss.name.empty() && job_.test.has_value()) {
    problems.Add("loss",
                 "is missing: the program evaluates none itself, so that the test's is one "
                 "of its predictions");
  }
  if (names_.empty()) names_.push_back("loss");
  CheckNames(problems);
  RETURN_IF_ERROR(problems.ToStatus());
  for (size_t i = 0; i < outputs_.size(); ++i) AddHead(i, schema, problems);
  if (job_.stop_when.has_value() &&
      std::find(names_.begin(), names_.end(), job_.stop_when->metric) == names_.end()) {
    const std::vector<std::string_view> known(names_.begin(), names_.end());
    problems.Add("stop_when.metric", absl::StrCat("\"", job_.stop_when->metric, "\"",
                                                  NotSupported(job_.stop_when->metric, known)));
  }
  return problems.ToStatus();
}

void ScoredProgram::AddStates(const ModelHead& head, const Batch& batch, const Column& output,
                              std::vector<MetricState>& states, size_t& at) {
  const auto add = [&](const MetricSpec& metric, bool weighted, MetricState& state) {
    ModelHead plain = head;
    if (!weighted) plain.weight.reset();
    std::vector<float> weights;
    RowWeights(plain, job_, batch, 0, batch.examples, nullptr, /*by_class=*/false, weights);
    AddToMetric(metric, metric.rows * batch.examples, output.values.data(), head.Targets(batch, 0),
                weights, state);
  };
  if (head.has_loss) {
    MetricSpec loss;
    loss.loss = head.loss;
    loss.rows = head.loss.rows;
    loss.columns = head.loss.columns;
    add(loss, /*weighted=*/true, states[0]);
  }
  for (const MetricSpec& metric : head.metrics) add(metric, metric.weighted, states[at++]);
}

absl::Status ScoredProgram::CheckAllTargets(const Batch& batch) const {
  for (const ModelHead& head : heads_) {
    if (IsMeasured(head)) RETURN_IF_ERROR(CheckTargets(head, batch));
  }
  return absl::OkStatus();
}

absl::Status ScoredProgram::CheckPredictions(const ModelHead& head, const Batch& batch,
                                             const Column& output) const {
  std::string what, name;
  if (head.has_loss && NeedsProbabilities(head.loss)) what = "loss", name = job_.loss.name;
  for (const MetricSpec& metric : head.metrics) {
    if (what.empty() && NeedsProbabilities(metric)) what = "metrics", name = metric.name;
  }
  if (what.empty()) return absl::OkStatus();
  constexpr float kRounding = 1e-5f;
  const auto off = std::find_if(output.values.begin(), output.values.end(), [](float value) {
    return value < -kRounding || value > 1 + kRounding;
  });
  if (off == output.values.end()) return absl::OkStatus();
  const auto at = static_cast<size_t>(off - output.values.begin());
  const size_t each = std::max<size_t>(output.values.size() / std::max(1u, batch.examples), 1);
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": ", name, " is of probabilities, and the program predicts ", *off, " for ",
      Where(batch, at / each), ": give the ", what == "loss" ? "loss" : "metric",
      " \"from_logits\": true if it predicts logits, or have it predict probabilities"));
}

absl::Status ScoredProgram::Evaluate(const Batch& batch, ConstTensors values,
                                     std::vector<MetricState>& states) {
  states.resize(names_.size());
  size_t at = std::max<size_t>(program_->metric_names().size(), 1);
  if (!program_->metric_names().empty()) {
    RETURN_IF_ERROR(program_->Evaluate(batch, values, states));
  }
  const bool measured = names_.size() > at || program_->metric_names().empty();
  if (!measured) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAllTargets(batch));
  ASSIGN_OR_RETURN(const std::vector<Column> outputs, program_->Predict(batch, values));
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (!IsMeasured(heads_[i])) continue;
    RETURN_IF_ERROR(CheckPredictions(heads_[i], batch, outputs[i]));
    AddStates(heads_[i], batch, outputs[i], states, at);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientProgram>> MakeScoredProgram(
    const Job& job, const Batch& schema, std::unique_ptr<GradientProgram> program,
    std::vector<ProgramOutput> outputs) {
  auto scored = std::make_unique<ScoredProgram>(job, std::move(program), std::move(outputs));
  RETURN_IF_ERROR(scored->Init(schema));
  return scored;
}

}  // namespace paracord
