#include "cli/user_job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/job_dir.h"
#include "common/status_macros.h"
#include "config/job_file.h"
#include "config/program_spec.h"
#include "data/data_source.h"
#include "keras/build.h"
#include "keras/json.h"
#include "program/workload.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

bool FromKeras(const Job& job) {
  return job.initial_weights.file.has_value() && IsKerasFileName(*job.initial_weights.file);
}

absl::StatusOr<std::string> ReadFor(Files& files, const Job& job,
                                    std::span<const VariableSpec> variables) {
  absl::StatusOr<std::string> weights =
      KerasWeights(files, *job.initial_weights.file, variables, job.initial_weights.partial);
  if (weights.ok()) return weights;
  return absl::Status(weights.status().code(),
                      absl::StrCat("initial_weights: ", std::string(weights.status().message())));
}

// Returns an empty batch with the columns of the model's InputLayers; nullopt if they leave
// something open.
std::optional<Batch> SchemaOf(const nlohmann::json& keras) {
  const absl::StatusOr<ModelSpec> model = ReadKerasModel(keras);
  if (!model.ok()) return std::nullopt;
  Batch schema;
  for (const Endpoint& input : model->inputs) {
    const nlohmann::json& config = model->layers[model->nodes[input.node].layer].config;
    Column& column = schema.inputs.emplace_back();
    column.name = input.name();
    column.text = config.value("dtype", nlohmann::json()) == "string";
    nlohmann::json shape;
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      if (config.contains(key)) shape = config[key];
    }
    if (!shape.is_array() || shape.empty()) return std::nullopt;
    for (size_t i = 1; i < shape.size(); ++i) {
      if (!shape[i].is_number_unsigned()) return std::nullopt;
      column.shape.push_back(shape[i].get<uint32_t>());
    }
  }
  return schema;
}

// Returns the variables of the model. Opens the data only if the model leaves shapes to the data.
absl::StatusOr<std::vector<VariableSpec>> VariablesOf(Files& files, const Job& job) {
  absl::StatusOr<std::vector<VariableSpec>> known = VariablesOfModel(job);
  if (known.ok()) return known;
  ASSIGN_OR_RETURN(const auto source, OpenDataSource(files, job.train));
  ASSIGN_OR_RETURN(const auto program,
                   BuildKerasProgram(job, source->schema(), MakeCpuOps(/*threads=*/1)));
  const std::span<const VariableSpec> variables = program->variables();
  return std::vector<VariableSpec>(variables.begin(), variables.end());
}

}  // namespace

absl::StatusOr<std::vector<VariableSpec>> VariablesOfModel(const Job& job) {
  std::vector<VariableSpec> declared = DeclaredVariables(job, MakeCpuOps(/*threads=*/1));
  if (!declared.empty()) return declared;
  // Behind preprocessing layers shapes follow from those of the inputs.
  const std::optional<Batch> schema = SchemaOf(job.model);
  if (!schema.has_value()) {
    return absl::InvalidArgumentError("the model's inputs have no shape without the job's data");
  }
  ASSIGN_OR_RETURN(const auto program, BuildKerasProgram(PredictingJob(job, DataSpec()), *schema,
                                                         MakeCpuOps(/*threads=*/1)));
  const std::span<const VariableSpec> variables = program->variables();
  return std::vector<VariableSpec>(variables.begin(), variables.end());
}

absl::StatusOr<Job> ReadUserJob(Files& files, const std::string& path,
                                std::span<const std::string> settings) {
  return ReadJobFile(files, path, settings, KerasModelText);
}

std::optional<Job> ReadUserJob(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems) {
  return ReadJobFile(files, path, settings, problems, KerasModelText);
}

absl::StatusOr<std::unique_ptr<InitialWeights>> OpenInitialWeights(
    Files& files, const Job& job, std::span<const VariableSpec> variables) {
  if (!FromKeras(job)) return InitialWeights::Open(files, job, variables);
  ASSIGN_OR_RETURN(std::string weights, ReadFor(files, job, variables));
  WeightsInMemory memory(*job.initial_weights.file, std::move(weights));
  return InitialWeights::Open(memory, job, variables);
}

absl::StatusOr<PlacedWeights> PlacedWeights::Read(Files& files, const Job& job, bool resumes) {
  PlacedWeights placed;
  if (!FromKeras(job)) return placed;
  if (IsProgram(job.model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_weights: ", *job.initial_weights.file,
                     ": a program names its variables itself: give a safetensors file"));
  }
  placed.converted_ = true;
  if (resumes) return placed;
  ASSIGN_OR_RETURN(const std::vector<VariableSpec> variables, VariablesOf(files, job));
  ASSIGN_OR_RETURN(placed.weights_, ReadFor(files, job, variables));
  // What the model lacks is said now rather than by a ps.
  WeightsInMemory memory(*job.initial_weights.file, *placed.weights_);
  RETURN_IF_ERROR(InitialWeights::Open(memory, job, variables).status());
  return placed;
}

absl::Status PlacedWeights::Place(Files& files, const std::string& dir, Job& job) const {
  if (!converted_) return absl::OkStatus();
  const std::string path = absl::StrCat(dir, "/", kInitialWeightsName);
  job.initial_weights.file = path;
  if (!weights_.has_value()) return absl::OkStatus();  // the checkpoint has the values
  return files.WriteAtomic(path, *weights_);
}

}  // namespace paracord
