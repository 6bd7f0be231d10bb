// Builds a Keras program: reads the model file, sets its precision, splits off preprocessing,
// builds the graph and the heads, and lists every problem on the way.
#include "keras/build.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "config/unknown_name.h"
#include "keras/id_inputs.h"
#include "keras/job_precision.h"
#include "keras/keras_program.h"
#include "keras/lane_group.h"
#include "keras/model_summary.h"
#include "keras/preprocessing/preprocessed_program.h"
#include "keras/preprocessing/preprocessor.h"
#include "keras/replicas.h"
#include "keras/stage_cut.h"
#include "keras/stage_program.h"

namespace paracord {

absl::Status KerasProgram::Init(const ModelSpec& model, const Batch& schema,
                                std::vector<size_t> input_columns, Problems& problems) {
  for (const size_t column : input_columns) {
    if (!schema.inputs[column].text) continue;
    problems.Add(absl::StrCat("data: input \"", schema.inputs[column].name, "\""),
                 "is strings, which only preprocessing layers take");
  }
  std::vector<bool> whole;
  for (const Endpoint& input : model.inputs) {
    whole.push_back(IsWhole(model.layers[model.nodes[input.node].layer]));
  }
  heads_ = MakeHeads(job_, model, *graph_, schema, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  std::vector<Graph::Value> loss_values;
  for (const ModelHead& head : heads_) {
    if (head.has_loss) loss_values.push_back(head.loss_value);
    if (head.has_loss && heads_.size() > 1) metric_names_.push_back(head.name + "_loss");
    for (const MetricSpec& metric : head.metrics) metric_names_.push_back(metric.name);
  }
  if (job_.stop_when.has_value() && std::find(metric_names_.begin(), metric_names_.end(),
                                              job_.stop_when->metric) == metric_names_.end()) {
    const std::vector<std::string_view> known(metric_names_.begin(), metric_names_.end());
    problems.Add("stop_when.metric", absl::StrCat("\"", job_.stop_when->metric, "\"",
                                                  NotSupported(job_.stop_when->metric, known)));
    return problems.ToStatus();
  }
  for (const Endpoint& output : model.outputs) output_names_.push_back(output.name());
  data_.emplace(*graph_, schema.inputs, std::move(input_columns), std::move(whole),
                int64_t{job_.batch});
  std::vector<int64_t> rows;
  for (size_t v = 0; v < variables().size(); ++v) rows.push_back(data_->tables().rows_max(v));
  graph_->UseRows(rows);
  std::vector<Graph::Value> measured;
  for (const ModelHead& head : heads_) {
    if (MeasuredInTraining(head)) measured.push_back(head.value);
  }
  graph_->PlanTraining(loss_values, accumulate_ > 1, measured);
  RETURN_IF_ERROR(KeepToStage());
  graph_->UseRows({});
  RETURN_IF_ERROR(PlanMemory(schema));
  return PrepareUsual();
}

absl::Status KerasProgram::KeepToStage() {
  if (part_.stages == 1) return absl::OkStatus();
  const std::vector<StageLayer> layers = graph_->StageLayers();
  ASSIGN_OR_RETURN(const std::vector<size_t> begins, CutStages(layers, job_.guarantees.stages));
  const size_t next = part_.stage + 1;
  graph_->KeepToStage(layers[begins[part_.stage]].begin,
                      next < begins.size() ? layers[begins[next]].begin : Graph::kNone);
  return absl::OkStatus();
}

// Prepares for the slices of the usual batch, of which a stage holds several.
absl::Status KerasProgram::PrepareUsual() {
  for (size_t place = places(); place-- > 0;) {
    RETURN_IF_ERROR(graph_->Prepare(SliceExamples(), place));
  }
  return absl::OkStatus();
}

std::string KerasProgram::StagesSummary() const {
  if (job_.guarantees.stages.count == 1) return "";
  const std::vector<StageLayer> layers = graph_->StageLayers();
  const auto begins = CutStages(layers, job_.guarantees.stages);
  return begins.ok() ? StagesText(layers, *begins) : "";
}

namespace {

struct Built {
  std::unique_ptr<Preprocessor> preprocessor;  // may be null
  std::unique_ptr<KerasProgram> program;
};

// With a null `schema`, only collects problems, and returns a null program.
absl::StatusOr<Built> Build(const Job& job, const Batch* schema, std::unique_ptr<Ops> ops,
                            const BatchPart& part) {
  Problems problems;
  if (schema != nullptr && !CheckColumns(*schema, problems)) schema = nullptr;
  absl::StatusOr<ModelSpec> model = ReadKerasModel(job.model);
  if (!model.ok()) {
    problems.Add("", std::string(model.status().message()));
    CheckLearning(job, nullptr, problems);
    return problems.ToStatus();
  }
  for (const std::string& problem : model->problems) problems.Add("", problem);
  std::optional<Batch> rest;
  if (schema != nullptr) {
    const absl::Status matched = MatchInputs(*model, *schema).status();
    if (matched.ok()) rest = *schema;
    if (!matched.ok()) problems.Add("", std::string(matched.message()));
  }
  std::unique_ptr<Preprocessor> preprocessor =
      Preprocessor::TakeOut(*model, rest ? &*rest : nullptr, problems);
  ApplyPrecision(job.precision, *model);
  std::vector<std::optional<Shape>> shapes(model->inputs.size());
  const TableLayers tables = ChooseTables(job, *model, problems);
  std::vector<size_t> columns;
  if (rest) {
    columns = MatchInputs(*model, *rest).value();  // was looked at before
    SplitIdInputs(*model, tables, columns);
    shapes.resize(columns.size());
  }
  for (size_t i = 0; i < columns.size(); ++i) shapes[i] = ShapeOf(rest->inputs[columns[i]]);
  std::unique_ptr<Graph> graph = Graph::Build(*ops, *model, shapes, problems);
  for (const auto& [layer, table] : tables) {
    if (graph != nullptr) graph->SetTable(model->layers[layer].name, table.spec, table.shards);
  }
  if (graph != nullptr && job.guarantees.stages.count > 1) {
    const absl::Status cut = CutStages(graph->StageLayers(), job.guarantees.stages).status();
    if (!cut.ok()) problems.Add("", std::string(cut.message()));
  }
  if (graph == nullptr || !rest) {
    CheckLearning(job, &*model, problems);
    RETURN_IF_ERROR(problems.ToStatus());
    return Built{};
  }
  graph->TakeIdMasks();
  const absl::Status large = graph->CheckLargeTables();
  if (!large.ok()) problems.Add("", std::string(large.message()));
  auto program = std::make_unique<KerasProgram>(
      job, std::move(ops), std::move(graph),
      preprocessor == nullptr ? std::vector<LayerRow>() : preprocessor->rows(), part);
  RETURN_IF_ERROR(program->Init(*model, *rest, std::move(columns), problems));
  return Built{std::move(preprocessor), std::move(program)};
}

std::unique_ptr<GradientProgram> Preprocessed(std::unique_ptr<Preprocessor> preprocessor,
                                              std::unique_ptr<GradientProgram> rest) {
  if (preprocessor == nullptr) return rest;
  return MakePreprocessedProgram(std::move(preprocessor), std::move(rest));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientProgram>> BuildKerasProgram(const Job& job,
                                                                   const Batch& schema,
                                                                   std::unique_ptr<Ops> ops) {
  ASSIGN_OR_RETURN(Built built, Build(job, &schema, std::move(ops), {}));
  return Preprocessed(std::move(built.preprocessor), std::move(built.program));
}

absl::StatusOr<std::unique_ptr<GradientProgram>> BuildReplicas(const Job& job, const Batch& schema,
                                                               std::vector<Replica> replicas) {
  if (job.batch < replicas.size()) {
    return absl::InvalidArgumentError(absl::StrCat("batches of ", job.batch,
                                                   " examples have no "
                                                   "part for each of ",
                                                   replicas.size(), " GPUs"));
  }
  auto sums = std::make_unique<PartSum>(replicas.size());
  std::unique_ptr<Preprocessor> preprocessor;
  std::vector<ReplicaPart> parts;
  for (size_t i = 0; i < replicas.size(); ++i) {
    replicas[i].ops->Enter();  // each replica has a device of its own
    const BatchPart part{i, replicas.size(), replicas[i].group, sums.get(), /*rank=*/i};
    ASSIGN_OR_RETURN(Built built, Build(job, &schema, std::move(replicas[i].ops), part));
    if (i == 0) preprocessor = std::move(built.preprocessor);
    parts.push_back({std::move(built.program), part.group});
  }
  return Preprocessed(std::move(preprocessor),
                      MakeReplicas(std::move(sums), std::move(parts), job.batch));
}

absl::StatusOr<LanePrograms> BuildLanes(const Job& job, const Batch& schema,
                                        std::vector<Replica> replicas,
                                        const std::vector<std::string>& devices) {
  const auto lanes = std::make_shared<LaneGroup>(devices);
  LanePrograms made{{}, lanes};
  for (size_t i = 0; i < replicas.size(); ++i) {
    replicas[i].ops->Enter();  // each lane has a device of its own
    const BatchPart part{.group = replicas[i].group, .sums = &lanes->meets(), .rank = i};
    ASSIGN_OR_RETURN(Built built, Build(job, &schema, std::move(replicas[i].ops), part));
    made.programs.push_back(
        Preprocessed(std::move(built.preprocessor),
                     LaneGroup::Join(lanes, std::move(built.program), part.group)));
  }
  return made;
}

absl::StatusOr<std::unique_ptr<GradientProgram>> BuildStages(const Job& job, const Batch& schema,
                                                             std::vector<StageDevice> devices) {
  const size_t stages = job.guarantees.stages.count;
  if (devices.size() != stages) {
    return absl::InvalidArgumentError(absl::StrCat("stages: the job's model has ", stages,
                                                   ", and there are ", devices.size(),
                                                   " devices: each stage has one of its own"));
  }
  std::unique_ptr<Preprocessor> preprocessor;
  std::vector<BuiltStage> all;
  for (size_t i = 0; i < stages; ++i) {
    std::string name = absl::StrCat("stage ", i + 1, " on ", devices[i].name);
    devices[i].ops->Enter();  // each stage has a device of its own
    const BatchPart part{.rank = i, .stage = i, .stages = stages};
    absl::StatusOr<Built> built = Build(job, &schema, std::move(devices[i].ops), part);
    if (absl::IsInvalidArgument(built.status())) return built.status();  // whatever the stage
    if (!built.ok()) {
      return absl::Status(built.status().code(),
                          absl::StrCat("stages: ", name, ": ", built.status().message()));
    }
    if (i == 0) preprocessor = std::move(built->preprocessor);
    all.push_back({std::move(name), std::move(built->program)});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<GradientProgram> program, MakeStageProgram(std::move(all)));
  return Preprocessed(std::move(preprocessor), std::move(program));
}

DeclaredModel Declare(const Job& job, std::unique_ptr<Ops> ops) {
  Problems problems;
  DeclaredModel declared;
  absl::StatusOr<ModelSpec> model = ReadKerasModel(job.model);
  if (!model.ok() || !model->problems.empty()) return declared;
  Preprocessor::TakeOut(*model, nullptr, problems);
  const std::vector<std::optional<Shape>> shapes(model->inputs.size());
  const std::unique_ptr<Graph> graph = Graph::Build(*ops, *model, shapes, problems);
  if (graph == nullptr) return declared;
  for (const auto& [layer, table] : ChooseTables(job, *model, problems)) {
    graph->SetTable(model->layers[layer].name, table.spec, table.shards);
  }
  declared.variables = graph->variables();
  for (size_t v = 0; v < declared.variables.size(); ++v) {
    const VariableSpec& variable = declared.variables[v];
    uint64_t ids = uint64_t{job.batch} * static_cast<uint64_t>(graph->InputsOfTable(v).ids);
    if (!IsGrowing(variable) && variable.shape_size() > 0) ids = std::min(ids, variable.shape(0));
    declared.rows.push_back(variable.has_table() ? ids : 0);
  }
  return declared;
}

std::vector<VariableSpec> DeclaredVariables(const Job& job, std::unique_ptr<Ops> ops) {
  return Declare(job, std::move(ops)).variables;
}

absl::Status CheckKerasModel(const Job& job, std::unique_ptr<Ops> ops) {
  return Build(job, nullptr, std::move(ops), {}).status();
}

}  // namespace paracord
