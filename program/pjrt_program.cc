#include "program/pjrt_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "common/memory_limit.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "config/program_spec.h"
#include "config/shape.h"
#include "program/given_columns.h"

namespace paracord {
namespace {

absl::Status Refuse(const absl::Status& status, const std::string& where) {
  return absl::InvalidArgumentError(absl::StrCat(where, status.message()));
}

const char* NameOfType(ColumnType type) {
  if (type == ColumnType::kFloat32) return "float32";
  return type == ColumnType::kInt32 ? "int32" : "int64";
}

PjrtType TypeOf(ColumnType type) {
  switch (type) {
    case ColumnType::kInt32:
      return PjrtType::kInt32;
    case ColumnType::kInt64:
      return PjrtType::kInt64;
    case ColumnType::kFloat32:
      return PjrtType::kFloat32;
  }
  return PjrtType::kFloat32;
}

Shape DimsOf(uint32_t batch, const auto& shape) {
  Shape dims = {batch};
  for (const auto axis : shape) dims.push_back(static_cast<int64_t>(axis));
  return dims;
}

// "modules[1], a step of 64 examples"
std::string ModuleText(const ProgramFile& file, size_t module) {
  const ProgramModule& one = file.modules[module];
  return absl::StrCat(
      "modules[", module, "], ", one.step ? "a step of " : "a prediction of ", one.batch,
      " examples", one.replicas > 1 ? absl::StrCat(" on each of ", one.replicas, " replicas") : "");
}

// Returns the module for predicting the next part of `examples`; null if the file has none.
const ProgramModule* ToPredict(const ProgramFile& file, uint32_t examples) {
  const ProgramModule* best = nullptr;
  for (const ProgramModule& one : file.modules) {
    if (one.step) continue;
    const uint32_t size = one.batch;
    const uint32_t had = best == nullptr ? 0 : best->batch;
    // The smallest module with room for all examples, otherwise the largest.
    if (best == nullptr || (had < examples ? size > had : size >= examples && size < had)) {
      best = &one;
    }
  }
  return best;
}

// Checks that a batch accepted by a step can be predicted, too: every prediction module run on a
// part of the batch receives all table rows of the whole batch.
absl::Status CheckRoomToPredict(const ProgramFile& file, size_t table, uint32_t batch) {
  uint64_t of_step = 0;
  for (const ProgramModule& module : file.modules) {
    if (module.step && module.batch == batch) of_step = RowsOfTable(module, table);
  }
  if (ToPredict(file, batch) == nullptr) return absl::OkStatus();
  for (uint32_t left = batch; left != 0;) {
    const ProgramModule& module = *ToPredict(file, left);
    const uint64_t rows = RowsOfTable(module, table);
    if (rows != 0 && rows < of_step) {
      const auto number = static_cast<size_t>(&module - file.modules.data());
      return absl::InvalidArgumentError(absl::StrCat(
          "model.file: ", ModuleText(file, number), ", has room for ", rows, " rows of the table ",
          OneLine(file.variables[table].name(), 200), ", and the step of ", batch, " examples for ",
          of_step,
          ": all rows that a batch reads are given to each module that predicts some of it; export "
          "predictions of ",
          batch, " examples"));
    }
    left = left < module.batch ? 0 : left % module.batch;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PjrtProgram>> PjrtProgram::Check(const Job& job, const Batch& schema,
                                                                uint64_t memory_max) {
  ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> program, Read(job, schema, memory_max));
  RETURN_IF_ERROR(PjrtReplicas::CheckJob(job, program->file_));
  return program;
}

absl::StatusOr<std::unique_ptr<PjrtProgram>> PjrtProgram::Read(const Job& job, const Batch& schema,
                                                               uint64_t memory_max) {
  RETURN_IF_ERROR(CheckOwnSettings(job));
  absl::StatusOr<ProgramFile> file = ReadProgramFile(job.model.at("file"));
  if (!file.ok()) return Refuse(file.status(), "model.file: ");
  std::unique_ptr<PjrtProgram> program(
      new PjrtProgram(std::make_shared<const ProgramFile>(*std::move(file)), schema));
  RETURN_IF_ERROR(program->CheckSizes(std::min(memory_max, FindMemory().bytes)));
  RETURN_IF_ERROR(program->MakeTables(job));
  RETURN_IF_ERROR(program->batch_.Match(program->file_, program->schema_, program->tables_,
                                        job.train.inputs_alone));
  return program;
}

absl::Status PjrtProgram::Open(const PjrtUse& use) {
  auto client = OpenPjrtDevice(use);
  if (!client.ok()) return Refuse(client.status(), "model: ");
  client_ = *std::move(client);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PjrtProgram>> PjrtProgram::Make(const Job& job, const Batch& schema,
                                                               const PjrtUse& use,
                                                               const CompiledPlace& compiled) {
  ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> program, Read(job, schema, use.memory_max));
  RETURN_IF_ERROR(program->Open(use));
  if (program->client_->devices() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device ", use.device, ": several devices are for workers that train; name one"));
  }
  RETURN_IF_ERROR(program->Compile(compiled));
  return program;
}

absl::StatusOr<std::vector<std::unique_ptr<PjrtProgram>>> PjrtProgram::MakeOnEach(
    const Job& job, const Batch& schema, const PjrtUse& use, const CompiledPlace& compiled) {
  std::vector<std::unique_ptr<PjrtProgram>> programs;
  ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> first, Check(job, schema, use.memory_max));
  RETURN_IF_ERROR(first->Open(use));
  if (ReplicasOf(first->file_) > 1) {
    ASSIGN_OR_RETURN(first->together_, PjrtReplicas::Make(first->file_, first->schema_,
                                                          first->tables_, *first->client_, use));
  }
  RETURN_IF_ERROR(first->Compile(compiled));
  programs.push_back(std::move(first));
  for (size_t place = 1; place < programs[0]->client_->devices(); ++place) {
    ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> other, programs[0]->OnOther(job, place));
    programs.push_back(std::move(other));
  }
  return programs;
}

absl::StatusOr<std::unique_ptr<PjrtProgram>> PjrtProgram::OnOther(const Job& job,
                                                                  size_t place) const {
  std::unique_ptr<PjrtProgram> other(new PjrtProgram(shared_file_, schema_));
  RETURN_IF_ERROR(other->MakeTables(job));
  RETURN_IF_ERROR(
      other->batch_.Match(file_, other->schema_, other->tables_, job.train.inputs_alone));
  other->client_ = client_;
  other->compiled_ = compiled_;
  other->place_ = place;
  other->keeps_ = keeps_;
  other->modules_kept_ = modules_kept_;
  for (const CompiledModule& compiled : *compiled_) {
    if (compiled.module->replicas > 1) continue;
    const absl::Status status = other->Try(compiled);
    if (!status.ok()) return Refuse(status, absl::StrCat("model: on device ", place, ": "));
  }
  return other;
}

absl::Status PjrtProgram::MakeTables(const Job& job) {
  ProgramHello hello;
  hello.variables = variables_ = file_.variables;
  hello.tables = file_.tables;
  ASSIGN_OR_RETURN(tables_, ProgramTables::Make(job, hello, schema_, variables_));
  for (const auto& [v, table] : file_.tables) {
    const std::string name = OneLine(file_.variables[v].name(), 200);
    for (const ProgramModule& module : file_.modules) {
      const auto found = std::ranges::find_if(module.arguments, [v = v](const ModuleArgument& one) {
        return one.kind == ModuleArgument::Kind::kVariable && one.index == v;
      });
      // Ids are then row indices, and a module must take all rows.
      if (found == module.arguments.end() || tables_.by_rows(v) ||
          found->rows == file_.variables[v].shape(0)) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("tables: ", name, " is to move whole, and the program was exported for ",
                       found->rows, " of its rows: export it without that table"));
    }
    if (tables_.by_rows(v)) RETURN_IF_ERROR(CheckRoomToPredict(file_, v, job.batch));
  }
  return absl::OkStatus();
}

absl::Status PjrtProgram::CheckSizes(uint64_t memory_max) const {
  for (size_t i = 0; i < file_.modules.size(); ++i) {
    const ProgramModule& module = file_.modules[i];
    uint64_t bytes = 0;
    const auto add = [&](const PjrtArray& array) {
      const std::vector<uint64_t> dims(array.dims.begin(), array.dims.end());
      const uint64_t more = TensorBytes(dims, ElementBytes(array.type)).value_or(UINT64_MAX);
      bytes = more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
    };
    for (const ModuleArgument& argument : module.arguments) add(ArrayOf(argument, module.batch));
    for (const ModuleResult& result : module.results) add(ArrayOf(module, result));
    if (bytes <= memory_max / module.replicas) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.file: ", ModuleText(file_, i), ": its arguments and results take ",
                     HumanBytes(bytes), ", and this process may take ", HumanBytes(memory_max)));
  }
  return absl::OkStatus();
}

PjrtArray PjrtProgram::ArrayOf(const ModuleArgument& argument, uint32_t batch) const {
  using Kind = ModuleArgument::Kind;
  const size_t i = argument.index;
  if (argument.kind == Kind::kVariable) {
    const auto& shape = file_.variables[i].shape();
    PjrtArray array = {PjrtType::kFloat32, {shape.begin(), shape.end()}};
    if (argument.rows != 0) array.dims[0] = static_cast<int64_t>(argument.rows);
    return array;
  }
  if (argument.kind == Kind::kKey) return {PjrtType::kUint32, {2}};
  const auto& columns = argument.kind == Kind::kInput    ? file_.inputs
                        : argument.kind == Kind::kTarget ? file_.targets
                                                         : file_.weights;
  return {TypeOf(columns[i].type), DimsOf(batch, columns[i].shape)};
}

PjrtArray PjrtProgram::ArrayOf(const ProgramModule& module, const ModuleResult& result) const {
  using Kind = ModuleResult::Kind;
  if (result.kind == Kind::kLoss) return {};
  if (result.kind == Kind::kOutput) {
    return {PjrtType::kFloat32, DimsOf(module.batch, file_.outputs[result.index].shape)};
  }
  ModuleArgument of = {ModuleArgument::Kind::kVariable, result.index};
  of.rows = RowsOfTable(module, result.index);
  return ArrayOf(of, module.batch);
}

absl::Status PjrtProgram::Compile(const CompiledPlace& place) {
  keeps_ = place.files != nullptr;
  compiled_->reserve(file_.modules.size());
  for (size_t i = 0; i < file_.modules.size(); ++i) {
    const ProgramModule& module = file_.modules[i];
    const absl::Status status = CompileOne(module, place);
    if (status.ok()) continue;
    return Refuse(status, absl::StrCat("model.file: ", ModuleText(file_, i), " (StableHLO ",
                                       OneLine(file_.stablehlo, 40), "): "));
  }
  return absl::OkStatus();
}

absl::Status PjrtProgram::CompileOne(const ProgramModule& module, const CompiledPlace& place) {
  CompiledModule compiled;
  compiled.module = &module;
  for (const ModuleArgument& argument : module.arguments) {
    compiled.arguments.push_back(ArrayOf(argument, module.batch));
  }
  const bool used = module.replicas == 1 || together_ != nullptr;
  const std::optional<KeptBytes> kept =
      used ? KeptForm(place, *client_, module) : std::optional<KeptBytes>();
  if (kept.has_value() && TakeKept(*kept, compiled)) {
    ++modules_kept_;
  } else if (used) {
    ASSIGN_OR_RETURN(compiled.loaded, client_->Compile(module.code, module.replicas));
    RETURN_IF_ERROR(CheckResults(compiled));
    RETURN_IF_ERROR(Try(compiled));
    // Without a serialized form, the next start compiles again.
    if (kept.has_value()) {
      const absl::StatusOr<std::string> form = client_->Serialize(compiled.loaded);
      if (form.ok()) kept->Save(*form, place.bytes_max);
    }
  }
  compiled_->push_back(std::move(compiled));
  return absl::OkStatus();
}

bool PjrtProgram::TakeKept(const KeptBytes& kept, CompiledModule& compiled) const {
  const std::optional<std::string> form = kept.Load();
  if (!form.has_value()) return false;
  absl::StatusOr<PjrtClient::Loaded> loaded = client_->Load(*form);
  if (!loaded.ok()) return false;
  compiled.loaded = *std::move(loaded);
  return CheckResults(compiled).ok() && Try(compiled).ok();
}

absl::Status PjrtProgram::CheckResults(const CompiledModule& compiled) const {
  const ProgramModule& module = *compiled.module;
  const std::vector<PjrtArray>& results = compiled.loaded.results;
  if (results.size() != module.results.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", results.size(), " results, and the file names ", module.results.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const PjrtArray wanted = ArrayOf(module, module.results[i]);
    if (results[i] == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat("its result ", i, " is ", ArrayText(results[i]),
                                                   ", and by the file ", ArrayText(wanted)));
  }
  return absl::OkStatus();
}

absl::Status PjrtProgram::Try(const CompiledModule& compiled) const {
  uint64_t bytes = 0;
  for (const PjrtArray& array : compiled.arguments) bytes = std::max(bytes, array.bytes());
  for (const PjrtArray& array : compiled.loaded.results) bytes = std::max(bytes, array.bytes());
  const AlignedVector<char> zeros(std::max<uint64_t>(bytes, 1));
  AlignedVector<char> taken(zeros.size());
  std::vector<PjrtClient::Argument> arguments;
  for (const PjrtArray& array : compiled.arguments) arguments.push_back({&array, zeros.data()});
  if (compiled.module->replicas > 1) return together_->Try(compiled, arguments, taken.data());
  PjrtClient::Run run(*client_, compiled.loaded, place_);
  RETURN_IF_ERROR(run.Start(arguments));
  for (size_t i = 0; i < compiled.loaded.results.size(); ++i) {
    RETURN_IF_ERROR(run.Fetch(i, taken.data()));
    RETURN_IF_ERROR(run.Await(i));
  }
  return absl::OkStatus();
}

absl::Status PjrtProgram::LookAt(const Batch& batch, LookupCounts&) {
  RETURN_IF_ERROR(batch_.Check(batch));
  ASSIGN_OR_RETURN(const RowsInUse use, tables_.InUse(batch, nullptr));
  return batch_.Take(batch, use);
}

absl::StatusOr<std::shared_ptr<const TableRows>> PjrtProgram::RowsOf(const Batch& batch) {
  if (!tables_.any()) return nullptr;
  RETURN_IF_ERROR(batch_.Check(batch));
  ASSIGN_OR_RETURN(std::shared_ptr<const ProgramRows> rows, tables_.RowsOf(batch));
  RETURN_IF_ERROR(tables_.CheckRoom(*rows));
  return rows;
}

absl::Status PjrtProgram::Take(const Batch& batch) {
  RETURN_IF_ERROR(batch_.Check(batch));
  ASSIGN_OR_RETURN(const RowsInUse use, tables_.InUse(batch, rows_));
  return batch_.Take(batch, use);
}

absl::StatusOr<const CompiledModule*> PjrtProgram::StepOf(uint32_t examples,
                                                          size_t replicas) const {
  for (const CompiledModule& one : *compiled_) {
    const ProgramModule& module = *one.module;
    if (module.step && module.batch == examples && module.replicas == replicas) return &one;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has ", examples, " examples, and the program has steps of ",
                   absl::StrJoin(SizesOf(/*step=*/true), ", "), " alone: export it for that"));
}

absl::StatusOr<std::vector<double>> PjrtProgram::ComputeSum(std::span<const KeyedBatch> batches,
                                                            ConstTensors values,
                                                            MutableTensors sum) {
  ASSIGN_OR_RETURN(const CompiledModule* const step,
                   StepOf(batches[0].batch->examples, batches.size()));
  return together_->Compute(*step, batches, values, sum);
}

absl::StatusOr<double> PjrtProgram::ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                     ConstTensors values,
                                                     MutableTensors gradients) {
  using Kind = ModuleResult::Kind;
  ASSIGN_OR_RETURN(const CompiledModule* const compiled, StepOf(batch.examples, /*replicas=*/1));
  RETURN_IF_ERROR(Take(batch));
  RETURN_IF_ERROR(batch_.CheckRows(*compiled->module));
  batch_.SetKey(batch_key);
  float loss = 0;
  PjrtClient::Run run(*client_, compiled->loaded, place_);
  RETURN_IF_ERROR(OfRun(run.Start(batch_.Arguments(*compiled, values, 0, batch.examples))));
  const std::vector<ModuleResult>& results = compiled->module->results;
  const auto by_rows = [&](const ModuleResult& result) {
    return result.kind == Kind::kGradient && tables_.by_rows(result.index);
  };
  for (size_t i = 0; i < results.size(); ++i) {
    void* to = &loss;
    if (results[i].kind == Kind::kGradient) to = gradients[results[i].index].data();
    if (by_rows(results[i])) {
      to = batch_.GradientPlace(results[i].index, RowsOfTable(*compiled->module, results[i].index));
    }
    RETURN_IF_ERROR(OfRun(run.Fetch(i, to)));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    RETURN_IF_ERROR(OfRun(run.Await(i)));
    if (by_rows(results[i])) {
      batch_.TakeGradient(results[i].index, gradients[results[i].index]);
    }
    if (there_ && results[i].kind == Kind::kGradient) there_(results[i].index);
  }
  return loss;
}

absl::Status PjrtProgram::PredictSome(const CompiledModule& compiled, ConstTensors values,
                                      uint32_t first, uint32_t count,
                                      std::vector<Column>& columns) {
  PjrtClient::Run run(*client_, compiled.loaded, place_);
  RETURN_IF_ERROR(OfRun(run.Start(batch_.Arguments(compiled, values, first, count))));
  const std::vector<ModuleResult>& results = compiled.module->results;
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<float> whole(compiled.loaded.results[i].bytes() / sizeof(float));
    RETURN_IF_ERROR(OfRun(run.Fetch(i, whole.data())));
    RETURN_IF_ERROR(OfRun(run.Await(i)));
    const size_t each = whole.size() / compiled.module->batch;
    std::vector<float>& out = columns[results[i].index].values;
    out.insert(out.end(), whole.begin(), whole.begin() + static_cast<ptrdiff_t>(count * each));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> PjrtProgram::Predict(const Batch& batch, ConstTensors values) {
  if (ToPredict(file_, 1) == nullptr) {
    return absl::UnimplementedError("the program file has no module that predicts");
  }
  RETURN_IF_ERROR(Take(batch));
  std::vector<Column> columns;
  for (const ProgramOutput& output : file_.outputs) {
    columns.push_back({output.name, {output.shape.begin(), output.shape.end()}, {}});
  }
  for (uint32_t first = 0; first < batch.examples;) {
    const ProgramModule& module = *ToPredict(file_, batch.examples - first);
    RETURN_IF_ERROR(batch_.CheckRows(module));
    const uint32_t count = std::min(module.batch, batch.examples - first);
    const auto number = static_cast<size_t>(&module - file_.modules.data());
    RETURN_IF_ERROR(PredictSome((*compiled_)[number], values, first, count, columns));
    first += count;
  }
  return columns;
}

absl::Status PjrtProgram::Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) {
  return absl::UnimplementedError("a program of StableHLO evaluates no metrics itself");
}

std::vector<uint32_t> PjrtProgram::SizesOf(bool step) const {
  std::vector<uint32_t> sizes;
  for (const ProgramModule& module : file_.modules) {
    if (module.step == step && module.replicas == 1) sizes.push_back(module.batch);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::string PjrtProgram::device() const {
  return absl::StrCat(client_->platform(), " by ", client_->plugin().path(), " (PJRT ",
                      client_->plugin().version(), ")");
}

std::string PjrtProgram::Memory() const {
  if (client_ == nullptr) return "not compiled: no plug-in is named (--device pjrt:PATH)";
  const auto together = static_cast<size_t>(std::ranges::count_if(
      file_.modules, [](const ProgramModule& module) { return module.replicas > 1; }));
  std::string text =
      absl::StrCat(compiled_->size() - (together_ == nullptr ? together : 0), " modules, ");
  if (keeps_) {
    absl::StrAppend(&text, modules_kept_, " of them compiled by an earlier start");
  } else {
    text += "compiled at each start (a worker with --allow-programs keeps them in its --dir)";
  }
  if (together_ != nullptr) {
    absl::StrAppend(&text, "; those for ", replicas(), " replicas add up the lanes of all devices");
  }
  return text;
}

std::string PjrtProgram::Summary() const {
  std::string text = absl::StrCat(
      "program: StableHLO ", OneLine(file_.stablehlo, 40), " by ", OneLine(file_.made_by, 200),
      "\n", VariablesText(file_.variables, [&](size_t v) { return tables_.Describe(v); }),
      "is given, by name:\n");
  for (const auto& [what, columns] :
       {std::pair("input", &file_.inputs), std::pair("target", &file_.targets),
        std::pair("weight", &file_.weights)}) {
    for (const ProgramColumn& column : *columns) {
      text += ColumnText(what, column.name, column.shape, NameOfType(column.type));
    }
  }
  absl::StrAppend(&text, OutputsText(file_.outputs), "computes batches of ",
                  absl::StrJoin(SizesOf(/*step=*/true), ", "), " alone\n");
  if (ReplicasOf(file_) > 1) {
    absl::StrAppend(&text, "adds up the gradients of ", ReplicasOf(file_), " batches itself\n");
  }
  const std::vector<uint32_t> predicts = SizesOf(/*step=*/false);
  if (!predicts.empty()) {
    absl::StrAppend(&text, "predicts in batches of ", absl::StrJoin(predicts, ", "), "\n");
  }
  if (client_ != nullptr) absl::StrAppend(&text, "computed on ", device(), "\n");
  return text;
}

}  // namespace paracord
