// paracord compute: runs one batch through the code that trains, without a cluster, to compare it
// with Keras: the workers' model, and for the optimizer's steps the parameter servers' partitions.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/out_file.h"
#include "cli/tensor_file.h"
#include "common/files.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "config/limits.h"
#include "config/named_spec.h"
#include "data/batch_plan.h"
#include "keras/device_program.h"
#include "keras/preprocessing/preprocessor.h"
#include "program/gradient_clip.h"
#include "program/gradient_program.h"
#include "store/initial_weights.h"
#include "store/optimizer.h"
#include "store/partition.h"
#include "tensor/device.h"

namespace paracord {
namespace {

struct ComputeFlags {
  std::string model;
  std::string weights;
  std::string batch;
  std::string out;
  int64_t steps = 3;
  std::string job;
  std::string device = "auto";
};

// Takes loss and optimizer from the job if there is one, otherwise from the model's compile_config.
absl::StatusOr<Job> MakeJob(Files& files, const ComputeFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(flags.model));
  absl::StatusOr<nlohmann::json> model = ParseJson(text, kJobBytesMax, kJobDepthMax);
  if (!model.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flags.model, ": ", model.status().message()));
  }
  Job job;
  if (!flags.job.empty()) {
    ASSIGN_OR_RETURN(job, ReadJobFile(files, flags.job));
    job.model = *std::move(model);
    return job;
  }
  Problems problems;
  const CompileConfig compiled = ReadCompileConfig(*model, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  const bool lacks_optimizer = flags.steps > 0 && !compiled.optimizer.has_value();
  if (compiled.losses.empty() || lacks_optimizer) {
    return absl::InvalidArgumentError(absl::StrCat(flags.model, ": its compile_config gives no ",
                                                   compiled.losses.empty() ? "loss" : "optimizer",
                                                   ": give --job JOB"));
  }
  job.model = *std::move(model);
  job.losses = compiled.losses;
  job.loss_weights.by_output = compiled.loss_weights;
  if (job.losses.size() == 1) {
    job.loss = job.losses[0];
    job.losses.clear();
  }
  if (compiled.optimizer.has_value()) job.optimizer = *compiled.optimizer;
  return job;
}

// The kind of an input in the model decides how its tensor is read.
TensorForm FormOf(const std::map<std::string, RawKind>& kinds, const std::string& tensor) {
  if (!tensor.starts_with("inputs/")) return TensorForm::kNumbers;
  const auto named = kinds.find(tensor.substr(7));
  const auto it = kinds.size() == 1 ? kinds.begin() : named;
  if (it == kinds.end() || it->second == RawKind::kFloat) return TensorForm::kNumbers;
  return it->second == RawKind::kString ? TensorForm::kText : TensorForm::kWhole;
}

absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model,
                                const std::string& path) {
  using Kinds = std::map<std::string, RawKind>;
  ASSIGN_OR_RETURN(const Kinds kinds, InputKinds(model));
  ASSIGN_OR_RETURN(
      std::vector<ReadTensor> tensors,
      ReadTensors(files, path, [&](const std::string& tensor) { return FormOf(kinds, tensor); }));
  Batch batch;
  for (ReadTensor& tensor : tensors) {
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " ", what));
    };
    if (tensor.shape.empty() || tensor.shape[0] == 0 || tensor.shape[0] > (1u << 24)) {
      return refuse("has no examples along axis 0");
    }
    if (batch.examples != 0 && tensor.shape[0] != batch.examples) {
      return refuse(
          absl::StrCat("has ", tensor.shape[0], " examples, the others have ", batch.examples));
    }
    batch.examples = static_cast<uint32_t>(tensor.shape[0]);
    Column column;
    column.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
    column.values = std::move(tensor.values);
    column.text = !tensor.strings.empty();
    column.strings = std::move(tensor.strings);
    column.exact = std::move(tensor.exact);
    if (tensor.name.starts_with("inputs/")) {
      column.name = tensor.name.substr(7);
      batch.inputs.push_back(std::move(column));
    } else if (tensor.name == "targets" || tensor.name.starts_with("targets/")) {
      if (tensor.name != "targets") column.name = tensor.name.substr(8);
      batch.targets.push_back(std::move(column));
    } else if (tensor.name == "weights" || tensor.name.starts_with("weights/")) {
      if (tensor.name != "weights") column.name = tensor.name.substr(8);
      batch.weights.push_back(std::move(column));
    } else {
      return refuse("is none of inputs/<input layer>, targets and weights");
    }
  }
  if (batch.inputs.empty()) return absl::InvalidArgumentError(path + ": no tensor inputs/<name>");
  if (batch.targets.empty()) return absl::InvalidArgumentError(path + ": no tensor targets");
  return batch;
}

// Returns the weights in the order of `variables`.
absl::StatusOr<std::vector<std::vector<float>>> ReadWeights(
    Files& files, const std::string& path, const std::vector<VariableSpec>& variables) {
  ASSIGN_OR_RETURN(std::vector<ReadTensor> tensors, ReadTensors(files, path));
  std::vector<std::string_view> names;
  for (const ReadTensor& tensor : tensors) names.push_back(tensor.name);
  const absl::StatusOr<std::vector<size_t>> found = FindVariables(names, variables);
  if (!found.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", found.status().message()));
  }
  std::vector<std::vector<float>> values;
  for (size_t v = 0; v < variables.size(); ++v) {
    ReadTensor& tensor = tensors[(*found)[v]];
    const std::vector<uint64_t> shape(variables[v].shape().begin(), variables[v].shape().end());
    if (tensor.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " has shape ",
                                                     ShapeText(tensor.shape), ", the model's is ",
                                                     ShapeText(shape)));
    }
    values.push_back(std::move(tensor.values));
  }
  return values;
}

// Holds the variables as a parameter server does, each in one partition.
class Store {
 public:
  Store(Optimizer optimizer, const std::vector<VariableSpec>& variables,
        const std::vector<std::vector<float>>& values)
      : optimizer_(std::move(optimizer)) {
    for (size_t i = 0; i < variables.size(); ++i) {
      const VariableSpec& variable = variables[i];
      PartitionContents contents{.value = Block(values[i].size()), .slots = {}, .ledger = {}};
      contents.value.Assign(values[i]);
      const Optimizer own = OptimizerFor(variable, optimizer_);
      if (variable.trainable()) FillSlots(own, contents);
      Partition::Facts facts{.id = static_cast<uint32_t>(i),
                             .name = variable.name(),
                             .shape = {variable.shape().begin(), variable.shape().end()},
                             .trained = variable.trainable(),
                             .bytes = contents.value.bytes()};
      partitions_.push_back(
          std::make_unique<Partition>(std::move(facts), own, std::move(contents)));
    }
  }

  // Applies the gradients of batch `step` of a split of `steps` batches. They must be finite.
  absl::Status Push(uint32_t step, uint32_t steps,
                    const std::vector<std::vector<float>>& gradients) {
    for (size_t i = 0; i < partitions_.size(); ++i) {
      if (!partitions_[i]->facts().trained) continue;
      const PlanBatch batch{.split = 0, .batch = step, .split_batches = steps};
      const Gradient gradient(
          absl::Cord(absl::string_view(reinterpret_cast<const char*>(gradients[i].data()),
                                       gradients[i].size() * sizeof(float))));
      const auto pushed = partitions_[i]->Push(batch, /*rejected=*/false, gradient);
      if (pushed.outcome != PUSH_APPLIED) {
        return absl::InternalError(partitions_[i]->facts().name + ": a step was not applied");
      }
    }
    return absl::OkStatus();
  }
  void Pull(std::vector<std::vector<float>>& values) const {
    for (size_t i = 0; i < partitions_.size(); ++i) {
      ChunkRefs chunks;
      partitions_[i]->Pull(chunks);
      auto out = values[i].begin();
      for (const ChunkRef& chunk : chunks) out = std::ranges::copy(chunk.values(), out).out;
    }
  }
  // Returns the averages of use_ema, which are the optimizer's last slot.
  std::vector<std::vector<float>> Averages() const {
    std::vector<std::vector<float>> averages(partitions_.size());
    for (size_t i = 0; i < partitions_.size(); ++i) {
      const Partition::Image image = partitions_[i]->TakeImage();
      if (!optimizer_.use_ema || image.slots.empty()) continue;
      for (const ChunkRef& chunk : image.slots[optimizer_.slots.size() - 1]) {
        averages[i].insert(averages[i].end(), chunk.values().begin(), chunk.values().end());
      }
    }
    return averages;
  }

 private:
  const Optimizer optimizer_;
  std::vector<std::unique_ptr<Partition>> partitions_;
};

struct Results {
  std::vector<Column> outputs;
  std::vector<float> losses;  // before each step and after the last
  std::vector<std::vector<float>> gradients, after;
  std::vector<std::vector<float>> averages;  // with use_ema; empty for variables that have none
};

absl::Status CheckFinite(const std::vector<VariableSpec>& variables, float loss,
                         const std::vector<std::vector<float>>& gradients, int64_t step) {
  const auto diverged = [&](const std::string& what) {
    return absl::OutOfRangeError(absl::StrCat(what, " is not finite at step ", step));
  };
  if (!std::isfinite(loss)) return diverged("the loss");
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!AllFinite(gradients[i])) return diverged("the gradient of " + variables[i].name());
  }
  return absl::OkStatus();
}

absl::StatusOr<Results> Compute(GradientProgram& program, const Job& job, const Batch& batch,
                                uint32_t steps, std::vector<std::vector<float>> values) {
  const std::vector<VariableSpec>& variables = program.variables();
  Optimizer optimizer;
  if (steps > 0) {
    ASSIGN_OR_RETURN(optimizer, ParseOptimizer(job.optimizer));
  }
  const GradientClip clip = ReadGradientClip(job.optimizer, variables);
  Store store(std::move(optimizer), variables, values);
  std::vector<std::vector<float>> gradients(values.size());
  std::vector<std::span<const float>> value_spans(values.begin(), values.end());
  std::vector<std::span<float>> gradient_spans;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].trainable()) gradients[i].resize(values[i].size());
    gradient_spans.emplace_back(gradients[i]);
  }
  Results results;
  ASSIGN_OR_RETURN(results.outputs, program.Predict(batch, value_spans));
  DataPlan plan;
  plan.set_seed(job.seed);
  BatchId id;
  for (uint32_t step = 0; step <= steps; ++step) {
    id.set_batch(step);
    ASSIGN_OR_RETURN(const double loss, program.ComputeGradients(batch, BatchKey(plan, id),
                                                                 value_spans, gradient_spans));
    results.losses.push_back(static_cast<float>(loss));
    if (step == 0) results.gradients = gradients;
    if (step == steps) break;
    RETURN_IF_ERROR(CheckFinite(variables, results.losses.back(), gradients, step));
    clip.Apply(gradient_spans);
    RETURN_IF_ERROR(store.Push(step, steps, gradients));
    store.Pull(values);
  }
  results.after = std::move(values);
  results.averages = store.Averages();
  return results;
}

absl::Status WriteResults(Files& files, const std::string& path,
                          const std::vector<VariableSpec>& variables, const Batch& batch,
                          const Results& results) {
  std::vector<NamedTensor> tensors;
  for (const Column& output : results.outputs) {
    std::vector<uint64_t> shape = {batch.examples};
    shape.insert(shape.end(), output.shape.begin(), output.shape.end());
    const bool one = results.outputs.size() == 1;
    tensors.push_back({one ? "output" : "output/" + output.name, shape, output.values});
  }
  tensors.push_back({"loss", {}, std::span(results.losses).first(1)});
  tensors.push_back({"losses", {results.losses.size()}, results.losses});
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::vector<uint64_t> shape(variables[i].shape().begin(), variables[i].shape().end());
    if (variables[i].trainable() && variables[i].moving_average() == 0) {
      tensors.push_back({"gradients/" + variables[i].name(), shape, results.gradients[i]});
    }
    tensors.push_back({"after/" + variables[i].name(), shape, results.after[i]});
    if (!results.averages[i].empty()) {
      tensors.push_back({"averages/" + variables[i].name(), shape, results.averages[i]});
    }
  }
  return WriteTensors(files, path, tensors, {});
}

// Sets `diverged` if the results are not finite: its error code, OUT_OF_RANGE, may also come from a
// file.
absl::Status Run(const ComputeFlags& flags, std::ostream& out, std::ostream& err, bool& diverged) {
  ASSIGN_OR_RETURN(const std::string device,
                   ChooseDevice(flags.device, DeviceFor::kOneModel, nullptr));
  InputFiles files;
  RETURN_IF_ERROR(CheckOutFile(files, flags.out));
  ASSIGN_OR_RETURN(Job job, MakeJob(files, flags));
  ASSIGN_OR_RETURN(const Batch batch, ReadBatch(files, job.model, flags.batch));
  Batch schema;
  for (const Column& column : batch.inputs) {
    schema.inputs.push_back({column.name, column.shape, {}, column.text});
  }
  for (const Column& column : batch.targets) {
    schema.targets.push_back({column.name, column.shape, {}});
  }
  for (const Column& column : batch.weights) {
    schema.weights.push_back({column.name, column.shape, {}});
  }
  job.batch = batch.examples;
  job.accumulate = std::min(job.accumulate, job.batch);
  ASSIGN_OR_RETURN(const DeviceProgram built,
                   BuildOnDevice(job, schema, {device, flags.device == "auto", /*threads=*/1}));
  if (!built.note.empty()) err << "paracord compute: " << built.note << "\n";
  const std::unique_ptr<GradientProgram>& program = built.program;
  ASSIGN_OR_RETURN(std::vector<std::vector<float>> values,
                   ReadWeights(files, flags.weights, program->variables()));
  RETURN_IF_ERROR(CheckOutFile(files, flags.out));
  const absl::StatusOr<Results> results =
      Compute(*program, job, batch, static_cast<uint32_t>(flags.steps), std::move(values));
  diverged = absl::IsOutOfRange(results.status());
  RETURN_IF_ERROR(results.status());
  RETURN_IF_ERROR(WriteResults(files, flags.out, program->variables(), batch, *results));
  out << "loss " << results->losses.front();
  if (flags.steps > 0) out << ", after " << flags.steps << " steps " << results->losses.back();
  out << "; " << flags.out << "\n";
  return absl::OkStatus();
}

}  // namespace

int RunCompute(Args args, std::ostream& out, std::ostream& err) {
  ComputeFlags own;
  Flags flags("paracord compute",
              "Computes one batch with the code that trains, to compare with Keras, without a\n"
              "cluster. All files are safetensors. OUT gets output, loss, losses,\n"
              "gradients/<variable> and after/<variable>; with use_ema also averages/<variable>.");
  flags.Positional("MODEL", "model.to_json() of Keras", &own.model);
  flags.String("weights", "FILE", "the variables, <layer>/<variable>", &own.weights);
  flags.String("batch", "FILE",
               "the examples: inputs/<input layer> and targets; strings are U8 of shape (examples, "
               "..., bytes)",
               &own.batch);
  flags.String("out", "FILE", "where the results go", &own.out);
  flags.Integer("steps", "N", "optimizer steps on that batch", 0, 1000000, &own.steps);
  flags.String("job", "JOB", "loss and optimizer from this job, not from compile_config", &own.job);
  flags.String("device", "DEVICE", "what to compute on: auto, cpu or cuda:N", &own.device);
  const auto code = flags.ParseOrExit(args, "paracord compute", out, err);
  if (code.has_value()) return *code;
  if (own.weights.empty() || own.batch.empty() || own.out.empty()) {
    return Fail("compute", "needs --weights FILE, --batch FILE and --out FILE",
                ExitCode::kConfiguration, err);
  }
  for (std::string* path : {&own.model, &own.weights, &own.batch, &own.out}) {
    *path = AbsolutePath(*path);
  }
  if (!own.job.empty()) own.job = AbsolutePath(own.job);
  bool diverged = false;
  const absl::Status status = Run(own, out, err, diverged);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return Fail("compute", status.message(), diverged ? ExitCode::kDiverged : ExitCodeOfWrite(status),
              err);
}

}  // namespace paracord
