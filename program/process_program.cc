#include "program/process_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "common/one_line.h"
#include "common/spawn.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "program/given_columns.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kLossesMax = 3;
constexpr int64_t kMinuteMs = 60000;
constexpr size_t kHelloPacketsMax = 100000;
constexpr size_t kMessageMax = 1000;

absl::Status Lost(const std::string& why) { return absl::UnavailableError(why); }

bool IsIndex(const json& value, size_t end) {
  return value.is_number_unsigned() && value.get<uint64_t>() < end;
}

absl::Status SameColumns(const char* what, const std::vector<Column>& schema,
                         const std::vector<Column>& columns,
                         const std::vector<PlacedColumn>& places, uint32_t examples) {
  RETURN_IF_ERROR(CheckColumnCount(what, schema.size(), columns.size()));
  for (size_t i = 0; i < columns.size(); ++i) {
    RETURN_IF_ERROR(CheckGivenColumn(what, schema[i], columns[i], examples, places[i].int64));
  }
  return absl::OkStatus();
}

}  // namespace

ProcessProgram::ProcessProgram(ProgramSpec spec, ProgramUse use, const Batch& schema, Job job)
    : spec_(std::move(spec)), use_(std::move(use)), schema_(schema), job_(std::move(job)) {}

absl::StatusOr<std::unique_ptr<ProcessProgram>> ProcessProgram::Start(const Job& job,
                                                                      const Batch& schema,
                                                                      ProgramUse use) {
  if (!use.allowed) {
    return absl::PermissionDeniedError(
        "model: the job runs a command of its own here, which is allowed to none unless this "
        "process is started with --allow-programs");
  }
  ASSIGN_OR_RETURN(ProgramSpec spec, ReadProgramSpec(job.model));
  RETURN_IF_ERROR(CheckOwnSettings(job));
  std::unique_ptr<ProcessProgram> program(
      new ProcessProgram(std::move(spec), std::move(use), schema, job));
  ASSIGN_OR_RETURN(program->folder_, ProgramFolder::Make(program->spec_.files));
  absl::Status launched = program->Launch();
  // A first child that exits by itself would do so again; a child killed by a signal may be
  // retried.
  for (size_t tries = 1; tries < kLossesMax && !launched.ok(); ++tries) {
    if (program->child_ == nullptr || !program->child_->killed()) break;
    launched = program->Launch();
  }
  if (!launched.ok()) {
    // Another Python on this machine may have the package.
    const bool package = absl::StrContains(launched.message(), "No module named");
    const std::string& first = program->spec_.command[0];
    return absl::InvalidArgumentError(absl::StrCat(
        "model: the program ", absl::StrJoin(program->spec_.command, " "), ": ", launched.message(),
        package ? absl::StrCat("; ", first, " is ", FindProgram(first)) : ""));
  }
  return program;
}

ProcessProgram::~ProcessProgram() {
  if (child_ == nullptr) return;
  child_->SayBye();
  child_->EndNow();
}

absl::Status ProcessProgram::Launch() {
  ChildOptions options;
  options.command = spec_.command;
  options.directory = folder_->path();
  options.environment = {"PARACORD_DEVICE=" + use_.device, "PARACORD_TASK=" + use_.task,
                         "PYTHONUNBUFFERED=1"};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    options.environment.push_back(absl::StrCat("OMP_NUM_THREADS=", use_.threads));
  }
  options.log = use_.log;
  options.threads = use_.threads;
  options.running = use_.running;
  ASSIGN_OR_RETURN(child_, ChildProcess::Start(options));
  ASSIGN_OR_RETURN(ProgramHello hello, TakeHello());
  if (job_.train.inputs_alone) {  // records without targets and weights, to predict for
    std::erase_if(hello.int64_columns, [](const auto& column) { return column.first != "inputs"; });
  }
  RETURN_IF_ERROR(CheckHello(hello));
  if (known_) {
    RETURN_IF_ERROR(CheckSameHello(hello_, hello));
  } else {
    RETURN_IF_ERROR(LayOutFirst(std::move(hello)));
  }
  RETURN_IF_ERROR(TellLayout());
  child_->TakesRequests();
  known_ = true;
  return absl::OkStatus();
}

absl::Status ProcessProgram::LayOutFirst(ProgramHello hello) {
  variables_ = hello.variables;
  ASSIGN_OR_RETURN(tables_, ProgramTables::Make(job_, hello, schema_, variables_));
  ASSIGN_OR_RETURN(layout_, LayOut(hello, schema_, job_.batch, tables_.room()));
  memory_ = ProgramMemory(&layout_, &tables_);
  hello_ = std::move(hello);
  return absl::OkStatus();
}

absl::StatusOr<ProgramHello> ProcessProgram::TakeHello() {
  ProgramHello hello;
  for (size_t packets = 0; packets < kHelloPacketsMax; ++packets) {
    ASSIGN_OR_RETURN(const json packet, child_->Receive(start_ms()));
    ASSIGN_OR_RETURN(const bool more, AddHello(packet, hello));
    if (!more) return hello;
  }
  return Lost("its hello does not end");
}

absl::Status ProcessProgram::TellLayout() {
  ASSIGN_OR_RETURN(const std::span<char> mapped, child_->MapMemory(layout_.bytes));
  memory_.Map(mapped);
  for (const json& packet : LayoutPackets(layout_, schema_)) {
    RETURN_IF_ERROR(child_->Send(packet));
  }
  ASSIGN_OR_RETURN(const json answer, child_->Receive(start_ms()));
  if (answer.contains("error") && answer["error"].is_string()) {
    return absl::InvalidArgumentError(OneLine(answer["error"].get<std::string>(), kMessageMax));
  }
  if (answer.contains("ready")) return absl::OkStatus();
  return Lost("it answered the layout with " + OneLine(JsonExcerpt(answer), kMessageMax));
}

template <class Act>
absl::Status ProcessProgram::WithChild(const Batch& batch, ConstTensors values, const Act& act) {
  for (size_t times = 1;; ++times) {
    absl::Status status;
    if (child_ == nullptr) {
      status = Launch();
      // A failed restart, for example with a different hello, counts as another loss.
      if (!status.ok()) status = Lost(std::string(status.message()));
    }
    if (status.ok()) status = memory_.PutBatch(batch, in_use_);
    if (status.ok()) {
      memory_.PutValues(values, in_use_);
      status = act();
    }
    if (!absl::IsUnavailable(status)) return status;
    RETURN_IF_ERROR(AfterLoss(status, times));
  }
}

absl::Status ProcessProgram::AfterLoss(const absl::Status& why, size_t times) {
  memory_.Map({});
  child_.reset();
  if (use_.running != nullptr && use_.running->ended()) {
    return absl::CancelledError("this process leaves");
  }
  const int64_t now_ms = SteadyMs();
  const std::string what = absl::StrCat("the program was lost: ", why.message());
  ++losses_.count;
  losses_.last = what;
  if (times == 1) losses_ms_.push_back(now_ms);
  std::erase_if(losses_ms_, [&](int64_t at_ms) { return at_ms < now_ms - kMinuteMs; });
  if (times == kLossesMax) {
    if (!losses_ms_.empty()) losses_ms_.pop_back();  // the program is at fault, not this machine
    return absl::FailedPreconditionError(absl::StrCat(what, " (", times, " times at one batch)"));
  }
  if (losses_ms_.size() >= kLossesMax) {
    return absl::DataLossError(
        absl::StrCat(what, " (at ", losses_ms_.size(), " batches within a minute)"));
  }
  if (use_.log) use_.log(what + "; it is started again, and the batch is computed anew");
  return absl::OkStatus();
}

absl::Status ProcessProgram::Check(const Batch& batch) const {
  if (batch.examples > job_.batch || batch.examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the batch has ", batch.examples, " examples, the job's have at most ", job_.batch));
  }
  return SameAsBefore(batch);
}

absl::Status ProcessProgram::SameAsBefore(const Batch& batch) const {
  const uint32_t n = batch.examples;
  RETURN_IF_ERROR(SameColumns("input", schema_.inputs, batch.inputs, layout_.inputs, n));
  RETURN_IF_ERROR(SameColumns("targets", schema_.targets, batch.targets, layout_.targets, n));
  return SameColumns("weights", schema_.weights, batch.weights, layout_.weights, n);
}

absl::Status ProcessProgram::LookAt(const Batch& batch, LookupCounts&) {
  RETURN_IF_ERROR(SameAsBefore(batch));
  ASSIGN_OR_RETURN(const RowsInUse use, tables_.InUse(batch, nullptr));
  return memory_.CheckBatch(batch, use);
}

absl::StatusOr<std::shared_ptr<const TableRows>> ProcessProgram::RowsOf(const Batch& batch) {
  if (!tables_.any()) return nullptr;
  RETURN_IF_ERROR(SameAsBefore(batch));
  ASSIGN_OR_RETURN(std::shared_ptr<const ProgramRows> rows, tables_.RowsOf(batch));
  RETURN_IF_ERROR(tables_.CheckRoom(*rows));
  return rows;
}

absl::StatusOr<RowsInUse> ProcessProgram::RowsFor(const Batch& batch) const {
  ASSIGN_OR_RETURN(const RowsInUse use, tables_.InUse(batch, rows_));
  if (use.whole) RETURN_IF_ERROR(tables_.CheckRoom(*use.rows));
  return use;
}

// Says of each table how many rows the child's memory has for the batch.
void ProcessProgram::SayRows(json& request) const {
  if (hello_.tables.empty()) return;
  json rows = json::array();
  for (const auto& [v, table] : hello_.tables) rows.push_back(memory_.Rows(v, in_use_));
  request["rows"] = std::move(rows);
}

absl::StatusOr<json> ProcessProgram::Ask(const json& request) {
  if (!request.is_null()) RETURN_IF_ERROR(child_->Send(request));
  ASSIGN_OR_RETURN(json answer, child_->Receive(int64_t{spec_.step_s} * 1000));
  const auto error = answer.find("error");
  if (error == answer.end()) return answer;
  const std::string why =
      OneLine(error->is_string() ? error->get<std::string>() : JsonExcerpt(*error), kMessageMax);
  if (answer.value("lost", json(false)) == true) return Lost(why);
  return absl::InvalidArgumentError(why);
}

// Takes a complete gradient. Keeps a gradient already reported before the child was lost, because
// the trainer may be sending it.
absl::Status ProcessProgram::TakeGradient(const json& packet, MutableTensors gradients,
                                          std::vector<bool>& reported) {
  const json& value = packet["gradient"];
  if (!IsIndex(value, gradients.size()) || !layout_.gradients[value.get<size_t>()].has_value()) {
    return Lost("it has the gradient of a variable that there is not: " +
                OneLine(JsonExcerpt(packet), kMessageMax));
  }
  const auto v = value.get<size_t>();
  if (reported[v]) return absl::OkStatus();
  memory_.TakeGradient(v, in_use_, gradients[v]);
  reported[v] = true;
  if (there_) there_(v);
  return absl::OkStatus();
}

absl::Status ProcessProgram::Step(const json& request, MutableTensors gradients,
                                  std::vector<bool>& reported, double& loss) {
  ASSIGN_OR_RETURN(json answer, Ask(request));
  for (size_t count = 0; answer.contains("gradient"); ++count) {
    if (count == gradients.size())
      return Lost("it reports more gradients than there are variables");
    RETURN_IF_ERROR(TakeGradient(answer, gradients, reported));
    ASSIGN_OR_RETURN(answer, Ask(nullptr));
  }
  const auto found = answer.find("loss");
  if (found == answer.end() || !(found->is_number() || found->is_null())) {
    return Lost("it answered a step without a loss: " + OneLine(JsonExcerpt(answer), kMessageMax));
  }
  // JSON has no NaN.
  loss = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (reported[v] || !layout_.gradients[v].has_value()) continue;
    memory_.TakeGradient(v, in_use_, gradients[v]);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ProcessProgram::ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                        ConstTensors values,
                                                        MutableTensors gradients) {
  RETURN_IF_ERROR(Check(batch));
  ASSIGN_OR_RETURN(in_use_, RowsFor(batch));
  json request = {{"do", "gradients"}, {"key", batch_key}, {"examples", batch.examples}};
  SayRows(request);
  std::vector<bool> reported(gradients.size());
  double loss = 0;
  RETURN_IF_ERROR(
      WithChild(batch, values, [&] { return Step(request, gradients, reported, loss); }));
  return loss;
}

absl::Status ProcessProgram::Evaluate(const Batch& batch, ConstTensors values,
                                      std::vector<MetricState>& states) {
  RETURN_IF_ERROR(Check(batch));
  ASSIGN_OR_RETURN(in_use_, RowsFor(batch));
  json request = {{"do", "evaluate"}, {"examples", batch.examples}};
  SayRows(request);
  std::vector<double> sums;
  RETURN_IF_ERROR(WithChild(batch, values, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const json answer, Ask(request));
    const json given = answer.value("sums", json());
    sums.clear();
    for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
      const json& pair = given[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number()) break;
      if (!pair[0].is_number() && !pair[0].is_null()) break;
      sums.push_back(pair[0].is_null() ? std::numeric_limits<double>::quiet_NaN()
                                       : pair[0].get<double>());
      sums.push_back(pair[1].get<double>());
    }
    if (sums.size() == 2 * hello_.metrics.size()) return absl::OkStatus();
    return Lost("it answered an evaluation without a pair of sums for each metric: " +
                OneLine(JsonExcerpt(answer), kMessageMax));
  }));
  states.resize(std::max(states.size(), hello_.metrics.size()));
  for (size_t i = 0; i < sums.size(); ++i) {
    MetricState& state = states[i / 2];
    state.set_kind(METRIC_MEAN);
    while (state.values_size() < 2) state.add_values(0);
    const int at = static_cast<int>(i % 2);
    state.set_values(at, state.values(at) + sums[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> ProcessProgram::Predict(const Batch& batch,
                                                            ConstTensors values) {
  RETURN_IF_ERROR(Check(batch));
  if (hello_.outputs.empty()) {
    return absl::UnimplementedError("the program declares no outputs, and so predicts nothing");
  }
  ASSIGN_OR_RETURN(in_use_, RowsFor(batch));
  std::vector<Column> columns;
  // Pads with examples of an earlier batch to a size supported by the program.
  uint32_t examples = batch.examples;
  for (const uint32_t size : hello_.batches) {
    if (size <= job_.batch && size >= batch.examples) examples = std::max(examples, size);
  }
  json request = {{"do", "predict"}, {"examples", examples}};
  SayRows(request);
  RETURN_IF_ERROR(WithChild(batch, values, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const json answer, Ask(request));
    if (!answer.contains("done")) {
      return Lost("it answered a prediction with " + OneLine(JsonExcerpt(answer), kMessageMax));
    }
    columns.clear();
    for (size_t i = 0; i < hello_.outputs.size(); ++i) {
      const ProgramOutput& output = hello_.outputs[i];
      Column& column = columns.emplace_back();
      column.name = output.name;
      column.shape.assign(output.shape.begin(), output.shape.end());
      const auto numbers = batch.examples * static_cast<uint64_t>(Elements(output.shape));
      const std::span<const float> from = memory_.Output(i, numbers);
      column.values.assign(from.begin(), from.end());
    }
    return absl::OkStatus();
  }));
  return columns;
}

std::string ProcessProgram::Summary() const {
  std::string text = absl::StrCat("program: ", OneLine(absl::StrJoin(spec_.command, " "), 200),
                                  " (", spec_.files.size(), " files in the job)\n");
  absl::StrAppend(&text,
                  VariablesText(hello_.variables, [&](size_t v) { return tables_.Describe(v); }),
                  "is given, in the order of the job's data:\n");
  for (const auto& [what, columns, places] :
       {std::tuple("input", &schema_.inputs, &layout_.inputs),
        std::tuple("target", &schema_.targets, &layout_.targets),
        std::tuple("weight", &schema_.weights, &layout_.weights)}) {
    for (size_t i = 0; i < columns->size(); ++i) {
      text += ColumnText(what, (*columns)[i].name, (*columns)[i].shape,
                         (*places)[i].int64 ? "int64" : "float32");
    }
  }
  text += OutputsText(hello_.outputs);
  if (!hello_.batches.empty()) {
    absl::StrAppend(&text, "computes batches of ", absl::StrJoin(hello_.batches, ", "), " alone\n");
  }
  if (!hello_.metrics.empty()) {
    absl::StrAppend(&text, "evaluates ", absl::StrJoin(hello_.metrics, ", "), " itself\n");
  }
  return text;
}

std::string ProcessProgram::Memory() const {
  return absl::StrCat(HumanBytes(layout_.bytes), " shared with the program");
}

}  // namespace paracord
