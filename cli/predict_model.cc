#include "cli/predict_model.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/own_programs.h"
#include "cli/user_job.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/job_settings.h"
#include "config/json_fields.h"
#include "config/partitions.h"
#include "config/program_spec.h"
#include "keras/job_program.h"
#include "tensor/device.h"

namespace paracord {
namespace {

// Returns the job of a checkpoint, with settings applied like to a job file.
absl::StatusOr<Job> JobOf(const Manifest& manifest, const std::vector<std::string>& set) {
  if (set.empty()) return ParseJob(manifest.job_json);
  KeyOrder order;
  ASSIGN_OR_RETURN(nlohmann::json document,
                   ParseJson(manifest.job_json, kJobBytesMax, kJobDepthMax, &order));
  Problems problems;
  ApplySettings(set, document, order, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  return ParseJob(PythonTextOf(document));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PredictModel>> PredictModel::Choose(Files& files,
                                                                   PredictModelFlags flags,
                                                                   std::ostream& notes,
                                                                   ExitCode& code) {
  code = ExitCode::kConfiguration;
  std::unique_ptr<PredictModel> model(new PredictModel(files, std::move(flags), notes));
  const PredictModelFlags& own = model->flags_;
  ASSIGN_OR_RETURN(model->device_, ChooseDevice(own.device, DeviceFor::kOneModel, nullptr));
  if (!own.dir.empty()) {
    ASSIGN_OR_RETURN(const uint64_t values_max, ValuesBytesMax(own.memory_limit));
    absl::StatusOr<ChosenCheckpoint> chosen =
        ChooseCheckpoint(files, own.dir, own.step, notes, values_max);
    if (!chosen.ok()) {
      code = ExitCodeOfChoice(chosen.status());
      return chosen.status();
    }
    model->chosen_ = *std::move(chosen);
  }
  RETURN_IF_ERROR(model->ReadJob());
  return model;
}

absl::Status PredictModel::ReadJob() {
  if (flags_.job.empty()) {
    ASSIGN_OR_RETURN(job_, JobOf(chosen_->manifest, flags_.set));
  } else {
    ASSIGN_OR_RETURN(job_, ReadUserJob(files_, flags_.job, flags_.set));
  }
  if (flags_.batch.has_value()) job_.batch = static_cast<uint32_t>(*flags_.batch);
  return absl::OkStatus();
}

std::string PredictModel::name() const {
  return chosen_.has_value() ? absl::StrCat("checkpoint ", chosen_->manifest.name.ToString())
                             : flags_.weights;
}

BuildProgramFn PredictModel::Builder() {
  return [this](const Job& of,
                const Batch& schema) -> absl::StatusOr<std::unique_ptr<GradientProgram>> {
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    ProgramUse programs = OwnPrograms("predict");
    // A job named on the command line is trusted; the job of a checkpoint may be anybody's.
    programs.allowed = flags_.allow_programs || !flags_.job.empty();
    ASSIGN_OR_RETURN(
        DeviceProgram built,
        BuildJobProgram(of, schema, {device_, flags_.device == "auto", threads}, programs));
    if (!built.note.empty()) notes_ << "paracord predict: " << built.note << "\n";
    return std::move(built.program);
  };
}

absl::Status PredictModel::Open(const DataSpec& data) {
  job_ = PredictingJob(std::move(job_), data);
  ASSIGN_OR_RETURN(workload_, OpenSource(files_, job_, job_.train, Builder()));
  return TakeValues();
}

absl::Status PredictModel::Build(const Batch& schema) {
  job_ = PredictingJob(std::move(job_), job_.train);
  ASSIGN_OR_RETURN(workload_.program, Builder()(job_, schema));
  return TakeValues();
}

absl::Status PredictModel::TakeValues() {
  const std::vector<VariableSpec>& variables = workload_.program->variables();
  WholeVariables whole;
  uint64_t seed = job_.seed;
  if (chosen_.has_value()) {
    RETURN_IF_ERROR(CheckShapes(variables, chosen_->manifest.variables));
    ASSIGN_OR_RETURN(whole, MatchVariables(variables, chosen_->stored()));
    seed = chosen_->manifest.plan.seed();
  } else {
    ASSIGN_OR_RETURN(weights_, ReadWeights(files_, flags_.weights, variables));
    whole.values = {weights_.values.begin(), weights_.values.end()};
    whole.ids = {weights_.ids.begin(), weights_.ids.end()};
  }
  ASSIGN_OR_RETURN(scored_, ScoredCheckpoint::Make(*workload_.program, whole, seed));
  return absl::OkStatus();
}

uint32_t PredictModel::SizeFor(uint32_t examples) const {
  if (IsStableHlo(job_.model)) return examples;  // the program cuts and fills batches itself
  uint32_t size = 0;
  for (const uint32_t each : workload_.program->BatchSizes()) {
    if (each >= examples && each <= job_.batch && (size == 0 || each < size)) size = each;
  }
  return size == 0 ? examples : size;
}

absl::StatusOr<std::vector<float>> PredictModel::Rows(const std::string& table,
                                                      std::span<const uint64_t> ids) {
  if (!chosen_.has_value()) return absl::InvalidArgumentError("rows are those of a checkpoint");
  const std::vector<VariableSpec>& variables = chosen_->manifest.variables;
  const auto found = std::ranges::find_if(variables, [&](const VariableSpec& variable) {
    return variable.name() == table && IsGrowing(variable);
  });
  if (found == variables.end()) {
    std::vector<std::string> there;
    for (const VariableSpec& variable : variables) {
      if (IsGrowing(variable)) there.push_back(variable.name());
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint has no growing table \"", table, "\"; it has ",
                     there.empty() ? "none" : absl::StrJoin(there, ", ")));
  }
  if (!rows_.has_value()) {
    ASSIGN_OR_RETURN(const WholeVariables whole, MatchVariables(variables, chosen_->stored()));
    ASSIGN_OR_RETURN(rows_, RowsForBatch::Make(variables, whole, chosen_->manifest.plan.seed()));
  }
  const auto place = static_cast<size_t>(found - variables.begin());
  TableRows wanted;
  wanted.ids.resize(variables.size());
  wanted.ids[place].assign(ids.begin(), ids.end());
  ASSIGN_OR_RETURN(const ConstTensors values, rows_->Of(wanted));
  return std::vector<float>(values[place].begin(), values[place].end());
}

absl::StatusOr<std::vector<Column>> PredictModel::Predict(const Batch& batch) {
  absl::StatusOr<std::vector<Column>> outputs = scored_->Predict(batch);
  if (!absl::IsUnimplemented(outputs.status())) return outputs;
  return absl::InvalidArgumentError(
      absl::StrCat("model: ", std::string(outputs.status().message()),
                   ": have it declare `outputs` and compute them (`predict`)"));
}

}  // namespace paracord
