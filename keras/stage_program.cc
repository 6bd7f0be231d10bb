#include "keras/stage_program.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/work_thread.h"
#include "keras/stage_part.h"

namespace paracord {
namespace {

class StageProgram : public GradientProgram {
 public:
  explicit StageProgram(std::vector<BuiltStage> stages) : links_(stages.size()) {
    for (size_t i = 0; i < stages.size(); ++i) {
      names_.push_back(std::move(stages[i].name));
      parts_.push_back(
          std::make_unique<StagePart>(std::move(stages[i].program), i, stages.size(), links_));
      threads_.push_back(std::make_unique<WorkThread>());
    }
  }
  absl::Status CheckThreads() const {
    for (const auto& thread : threads_) {
      if (thread->there()) continue;
      return absl::ResourceExhaustedError(
          absl::StrCat("stages: the system has no room for a thread for each of ", parts_.size()));
    }
    return absl::OkStatus();
  }

  const std::vector<VariableSpec>& variables() const override { return first().variables(); }
  const std::vector<std::string>& metric_names() const override { return first().metric_names(); }
  std::string Summary() const override { return first().Summary(); }
  std::string Doubt(const Batch& batch) const override { return first().Doubt(batch); }
  int64_t MultiplyAdds() const override { return first().MultiplyAdds(); }
  bool host_memory() const override { return first().host_memory(); }
  std::string Memory() const override {
    std::string text = absl::StrCat(parts_.size(), " stages");
    for (size_t i = 0; i < parts_.size(); ++i) {
      absl::StrAppend(&text, "; ", names_[i], ": ", parts_[i]->program().Memory());
    }
    return text;
  }

  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    return first().LookAt(batch, counts);
  }
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    return first().RowsOf(batch);
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    for (const auto& part : parts_) part->program().UseRows(rows);
  }
  void OnGradient(std::function<void(size_t)> there) override {
    there_ = std::move(there);
    for (const auto& part : parts_) {
      std::function<void(size_t)> report;
      if (there_) report = [this](size_t variable) { links_.Report(variable); };
      part->program().OnGradient(std::move(report));
    }
  }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override {
    RETURN_IF_ERROR(first().CheckTrainingBatch(batch));
    const StageRun run{batch, batch_key, values, gradients};
    RETURN_IF_ERROR(RunStages([&](StagePart& part) { return part.Train(run); }));
    return StagePart::LossOf(parts_, batch);
  }
  std::vector<MetricState> TakeTrainingMetrics() override {
    return parts_.back()->program().TakeTrainingMetrics();
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    RETURN_IF_ERROR(first().CheckTrainingBatch(batch));
    const StageRun run{batch, 0, values};
    RETURN_IF_ERROR(RunStages([&](StagePart& part) { return part.Evaluate(run); }));
    StagePart::AddEvaluation(parts_, batch, states);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    RETURN_IF_ERROR(first().CheckInputs(batch));
    const StageRun run{batch, 0, values};
    RETURN_IF_ERROR(RunStages([&](StagePart& part) { return part.Predict(run); }));
    return parts_.back()->TakeOutputs();
  }

 private:
  KerasProgram& first() const { return parts_[0]->program(); }
  // Runs all stages, each on its thread, and returns when all have ended, with the first error.
  absl::Status RunStages(const std::function<absl::Status(StagePart&)>& run) {
    links_.Reset();
    for (size_t i = 0; i < parts_.size(); ++i) {
      threads_[i]->Start([&run, this, i] { links_.End(Named(i, run(*parts_[i]))); });
    }
    while (const std::optional<size_t> variable = links_.NextReported()) there_(*variable);
    for (const auto& thread : threads_) thread->Wait();
    return links_.status();
  }

  absl::Status Named(size_t stage, const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(names_[stage], ": ", status.message()));
  }

  std::vector<std::string> names_;  // of the stages
  StageLinks links_;
  std::vector<std::unique_ptr<StagePart>> parts_;
  std::function<void(size_t)> there_;
  std::vector<std::unique_ptr<WorkThread>> threads_;  // destroyed before their tasks' data
};

}  // namespace

absl::StatusOr<std::unique_ptr<GradientProgram>> MakeStageProgram(std::vector<BuiltStage> stages) {
  auto program = std::make_unique<StageProgram>(std::move(stages));
  RETURN_IF_ERROR(program->CheckThreads());
  return program;
}

}  // namespace paracord
