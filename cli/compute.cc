// paracord compute: runs one batch through the training code without a cluster, to compare with
// Keras: the workers' model, and for optimizer steps the partitions of parameter servers.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/compute_batch.h"
#include "cli/out_file.h"
#include "cli/tensor_file.h"
#include "cli/user_job.h"
#include "cli/weights_file.h"
#include "common/files.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "config/limits.h"
#include "config/named_spec.h"
#include "config/partitions.h"
#include "config/program_spec.h"
#include "data/batch_plan.h"
#include "keras/job_program.h"
#include "program/gradient_clip.h"
#include "program/gradient_program.h"
#include "store/dense_partition.h"
#include "store/optimizer.h"
#include "store/table_partition.h"
#include "tensor/device.h"
#include "worker/rows_for_batch.h"

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

// A program has its own loss, and computes no metrics.
void LeaveOutScores(Job& job) {
  job.loss = {};
  job.losses.clear();
  job.metrics.clear();
  job.test.reset();
  job.stop_when.reset();
}

// Takes loss and optimizer from the job if there is one, otherwise from the model's compile_config.
absl::StatusOr<Job> MakeJob(Files& files, const ComputeFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(flags.model));
  absl::StatusOr<nlohmann::json> model = ParseJson(text, kJobBytesMax, kJobDepthMax);
  if (!model.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flags.model, ": ", model.status().message()));
  }
  Job job;
  const bool program = IsProgramFile(*model);
  if (program) model = StableHloModel(*std::move(model));
  if (!flags.job.empty()) {
    ASSIGN_OR_RETURN(job, ReadUserJob(files, flags.job));
    job.model = *std::move(model);
    if (program) LeaveOutScores(job);
    return job;
  }
  if (program && flags.steps > 0) {
    return absl::InvalidArgumentError(flags.model +
                                      ": a program has no optimizer: give --job JOB, or --steps 0");
  }
  if (program) {
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

// Holds the variables as a parameter server does, each in one partition.
class Store {
 public:
  static absl::StatusOr<Store> Make(Optimizer optimizer, const std::vector<VariableSpec>& variables,
                                    const Weights& weights, uint64_t seed) {
    RETURN_IF_ERROR(CheckOwnOptimizers(variables));
    Store store(std::move(optimizer));
    for (size_t i = 0; i < variables.size(); ++i) {
      const VariableSpec& variable = variables[i];
      Partition::Facts facts{.id = static_cast<uint32_t>(i),
                             .name = variable.name(),
                             .shape = {variable.shape().begin(), variable.shape().end()},
                             .trained = variable.trainable(),
                             .bytes = weights.values[i].size() * sizeof(float)};
      if (IsGrowing(variable)) {
        ASSIGN_OR_RETURN(TableContents table,
                         Rows(variable, store.optimizer_, weights.ids[i], weights.values[i], seed));
        store.partitions_.push_back(
            std::make_unique<TablePartition>(std::move(facts), 1, std::move(table)));
        continue;
      }
      const Optimizer own = OptimizerFor(variable, store.optimizer_);
      if (KeepsFixedRows(variable, own)) {
        TableContents table;
        table.fixed = std::make_unique<FixedTable>(own, facts.shape, 0, variable.trainable());
        table.fixed->PlaceOf(table.fixed->columns()[0]).Put(0, weights.values[i]);
        table.fixed->FillSlots();
        store.fixed_[i] = table.fixed.get();
        store.partitions_.push_back(
            std::make_unique<TablePartition>(std::move(facts), 1, std::move(table)));
        continue;
      }
      PartitionContents contents{
          .value = Block(weights.values[i].size()), .slots = {}, .ledger = {}};
      contents.value.Assign(weights.values[i]);
      if (variable.trainable()) FillSlots(own, contents);
      store.partitions_.push_back(
          std::make_unique<DensePartition>(std::move(facts), own, std::move(contents)));
    }
    return store;
  }

  // Applies the finite gradients of batch `step` of a split of `steps` batches. Gradients of tables
  // have only `rows`, unless null.
  absl::Status Push(uint32_t step, uint32_t steps, const std::vector<std::vector<float>>& gradients,
                    const TableRows* rows) {
    for (size_t i = 0; i < partitions_.size(); ++i) {
      if (!partitions_[i]->facts().trained) continue;
      const PlanBatch batch{.split = 0, .batch = step, .split_batches = steps};
      PartitionUpdate update;
      update.gradient =
          Gradient(absl::Cord(absl::string_view(reinterpret_cast<const char*>(gradients[i].data()),
                                                gradients[i].size() * sizeof(float))));
      if (rows != nullptr && !rows->ids[i].empty()) update.rows = rows->ids[i];
      const auto pushed = partitions_[i]->Push(batch, /*rejected=*/false, update, {});
      if (pushed.outcome != PUSH_APPLIED) {
        return absl::InternalError(partitions_[i]->facts().name + ": a step was not applied");
      }
    }
    return absl::OkStatus();
  }
  void Pull(std::vector<std::vector<float>>& values, const TableRows* rows) const {
    for (size_t i = 0; i < partitions_.size(); ++i) {
      if (rows != nullptr && !rows->ids[i].empty()) {
        partitions_[i]->PullRows(rows->ids[i], values[i]);
        continue;
      }
      if (partitions_[i]->is_table()) {
        partitions_[i]->PullRange(0, values[i]);
        continue;
      }
      ChunkRefs chunks;
      partitions_[i]->Pull(chunks);
      auto out = values[i].begin();
      for (const ChunkRef& chunk : chunks) out = std::ranges::copy(chunk.values(), out).out;
    }
  }
  // Returns the averages of use_ema, the optimizer's last slot; for tables only if they are whole.
  std::vector<std::vector<float>> Averages(const TableRows* rows) const {
    std::vector<std::vector<float>> averages(partitions_.size());
    const auto average_of = [](const std::vector<SlotSpec>& slots) -> std::optional<size_t> {
      const auto at = std::ranges::find(slots, std::string(kAverageSlot), &SlotSpec::name);
      if (at == slots.end()) return std::nullopt;
      return static_cast<size_t>(at - slots.begin());
    };
    for (size_t i = 0; i < partitions_.size(); ++i) {
      if (rows != nullptr && !rows->ids[i].empty()) continue;
      if (const auto fixed = fixed_.find(i); fixed != fixed_.end()) {
        const std::optional<size_t> slot = average_of(fixed->second->slots());
        if (!slot.has_value()) continue;
        const PlacedIn<float> place = fixed->second->PlaceOf(fixed->second->columns()[*slot + 1]);
        averages[i].resize(place.size);
        place.Take(0, averages[i]);
        continue;
      }
      const auto* const dense = dynamic_cast<const DensePartition*>(partitions_[i].get());
      const std::optional<size_t> slot =
          dense == nullptr ? std::nullopt : average_of(dense->slots());
      if (!slot.has_value()) continue;
      const DensePartition::Image image = dense->TakeImage();
      for (const ChunkRef& chunk : image.slots[*slot]) {
        averages[i].insert(averages[i].end(), chunk.values().begin(), chunk.values().end());
      }
    }
    return averages;
  }

 private:
  explicit Store(Optimizer optimizer) : optimizer_(std::move(optimizer)) {}

  static absl::StatusOr<TableContents> Rows(const VariableSpec& variable,
                                            const Optimizer& optimizer,
                                            std::span<const uint64_t> ids,
                                            std::span<const float> values, uint64_t seed) {
    TableContents contents;
    VariableSpec whole = variable;  // one slot, with all given rows
    whole.mutable_table()->clear_rows_max();
    ASSIGN_OR_RETURN(contents.table, MakeTableOfShard(whole, optimizer, seed));
    const uint64_t width = RowElements(variable);
    for (size_t i = 0; i < ids.size(); ++i) {
      RETURN_IF_ERROR(contents.table->AddRow(ids[i], values.subspan(i * width, width)));
    }
    return contents;
  }

  Optimizer optimizer_;
  std::vector<std::unique_ptr<Partition>> partitions_;
  std::map<size_t, const FixedTable*> fixed_;  // index of partition; fixed tables only
};

struct Results {
  std::vector<Column> outputs;
  std::vector<float> losses;  // before each step and after the last
  std::vector<std::vector<float>> gradients, after;
  std::vector<std::vector<float>> averages;  // with use_ema; empty for variables that have none
  std::shared_ptr<const TableRows> rows;     // rows of tables in gradients and values; null: all
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
                                uint32_t steps, Weights weights) {
  const std::vector<VariableSpec>& variables = program.variables();
  Optimizer optimizer;
  if (steps > 0) {
    ASSIGN_OR_RETURN(optimizer, ParseOptimizer(job.optimizer));
  }
  const GradientClip clip = ReadGradientClip(job.optimizer, variables);
  ASSIGN_OR_RETURN(Store store, Store::Make(std::move(optimizer), variables, weights, job.seed));
  Results results;
  std::vector<std::vector<float>> values = std::move(weights.values);
  if (std::ranges::any_of(variables, IsGrowing)) {
    const WholeVariables whole{{values.begin(), values.end()},
                               {weights.ids.begin(), weights.ids.end()}};
    ASSIGN_OR_RETURN(RowsForBatch all, RowsForBatch::Make(variables, whole, job.seed));
    ASSIGN_OR_RETURN(results.rows, program.RowsOf(batch));
    program.UseRows(results.rows);
    std::vector<std::vector<float>> read;
    ASSIGN_OR_RETURN(const ConstTensors all_read, all.Of(*results.rows));
    for (const auto& one : all_read) read.emplace_back(one.begin(), one.end());
    values = std::move(read);
  }
  std::vector<std::vector<float>> gradients(values.size());
  std::vector<std::span<const float>> value_spans(values.begin(), values.end());
  std::vector<std::span<float>> gradient_spans;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].trainable()) gradients[i].resize(values[i].size());
    gradient_spans.emplace_back(gradients[i]);
  }
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
    RETURN_IF_ERROR(store.Push(step, steps, gradients, results.rows.get()));
    store.Pull(values, results.rows.get());
  }
  results.after = std::move(values);
  results.averages = store.Averages(results.rows.get());
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
    std::vector<uint64_t> shape(variables[i].shape().begin(), variables[i].shape().end());
    if (results.rows != nullptr && variables[i].has_table()) {
      shape[0] = results.rows->ids[i].size();
      tensors.push_back({.name = "ids/" + variables[i].name(),
                         .shape = {shape[0]},
                         .values = {},
                         .ids = std::span<const uint64_t>(results.rows->ids[i])});
    }
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
  ASSIGN_OR_RETURN(
      const DeviceProgram built,
      BuildJobProgram(job, schema, {device, flags.device == "auto", /*threads=*/1}, ProgramUse{}));
  if (!built.note.empty()) err << "paracord compute: " << built.note << "\n";
  const std::unique_ptr<GradientProgram>& program = built.program;
  ASSIGN_OR_RETURN(Weights weights, ReadWeights(files, flags.weights, program->variables()));
  RETURN_IF_ERROR(CheckOutFile(files, flags.out));
  const absl::StatusOr<Results> results =
      Compute(*program, job, batch, static_cast<uint32_t>(flags.steps), std::move(weights));
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
              "gradients/<variable> and after/<variable>; with use_ema also averages/<variable>.\n"
              "If a table grows, those of tables are of the rows in ids/<variable>.");
  flags.Positional("MODEL", "model.to_json() of Keras, or a program file of StableHLO", &own.model);
  flags.String("weights", "FILE", "the variables, <layer>/<variable>", &own.weights);
  flags.String("batch", "FILE",
               "the examples: inputs/<input layer> and targets; strings are U8 of shape (examples, "
               "..., bytes)",
               &own.batch);
  flags.String("out", "FILE", "where the results go", &own.out);
  flags.Integer("steps", "N", "optimizer steps on that batch", 0, 1000000, &own.steps);
  flags.String("job", "JOB", "loss and optimizer from this job, not from compile_config", &own.job);
  flags.String("device", "DEVICE", "what to compute on: auto, cpu, cuda:N or pjrt:PATH",
               &own.device);
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
