// A program's use of the device's memory: planned by a rehearsal before any computation, and
// reported in a line, or in several if it does not fit.
#include <algorithm>
#include <limits>
#include <map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/status_macros.h"
#include "keras/keras_program.h"

namespace paracord {
namespace {

constexpr size_t kLargest = 5;         // most uses named in an error
constexpr int64_t kAnotherShare = 16;  // less than this share of the memory counts as little

void FillZero(std::vector<Column>& columns, uint32_t examples) {
  for (Column& column : columns) {
    size_t size = examples;
    for (const uint64_t dim : column.shape) size *= dim;
    column.values.assign(size, 0);
  }
}

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<uint64_t>(bytes)); }

const char* NameOf(MemoryRow::Kind kind) {
  switch (kind) {
    case MemoryRow::Kind::kParameters:
      return "parameters and their gradients";
    case MemoryRow::Kind::kBatch:
      return "the batch";
    case MemoryRow::Kind::kValues:
      return "outputs of layers";
    case MemoryRow::Kind::kGradients:
      return "gradients between layers";
    case MemoryRow::Kind::kLayers:
      return "what layers work in";
    case MemoryRow::Kind::kWork:
      return "what operations work in";
    case MemoryRow::Kind::kCode:
      return "code";
  }
  return "";
}

}  // namespace

int64_t KerasProgram::FloatsMost(size_t variable) const {
  const VariableSpec& spec = variables()[variable];
  const int64_t all = VariableElements(spec);
  if (!spec.has_table()) return all;
  return all / static_cast<int64_t>(spec.shape(0)) * data_->tables().rows_max(variable);
}

// Rehearses the steps for a batch of zeros; the numbers do not matter.
absl::Status KerasProgram::Rehearse(const Batch& schema) {
  Batch batch = schema;
  batch.examples = std::max<uint32_t>(job_.batch, 1);
  batch.source = nullptr;
  for (auto* columns : {&batch.inputs, &batch.targets, &batch.weights}) {
    FillZero(*columns, batch.examples);
  }
  int64_t largest = 0;
  for (size_t v = 0; v < variables().size(); ++v) largest = std::max(largest, FloatsMost(v));
  std::vector<float> any(static_cast<size_t>(largest));
  std::vector<std::span<const float>> values;
  std::vector<std::span<float>> gradients;
  for (size_t v = 0; v < variables().size(); ++v) {
    const auto n = static_cast<size_t>(FloatsMost(v));
    values.push_back(std::span(any).first(n));
    gradients.push_back(std::span(any).first(variables()[v].trainable() ? n : 0));
  }
  if (data_->tables().any()) UseRows(data_->tables().Widest(batch));
  const absl::Cleanup whole = [this] { UseRows(nullptr); };
  if (job_.train.inputs_alone) return Predict(batch, values).status();
  RETURN_IF_ERROR(PrepareUsual());
  RETURN_IF_ERROR(ComputeGradients(batch, 0, values, gradients).status());
  RETURN_IF_ERROR(PrepareAnother());
  if (gradient_sum_) gradient_sum_->Learn();
  if (!job_.test.has_value()) return absl::OkStatus();
  std::vector<MetricState> states;
  return Evaluate(batch, values, states);
}

// If the layers' scratch memory is small, also prepares a second batch size, to keep an epoch's
// last batch from evicting the usual batch's kernels.
absl::Status KerasProgram::PrepareAnother() {
  int64_t all = 0, layers = 0;
  for (const MemoryRow& row : MemoryRows()) {
    all += row.bytes;
    if (row.kind == MemoryRow::Kind::kLayers) layers += row.bytes;
  }
  if (SliceExamples() < 2 || layers > all / kAnotherShare) return absl::OkStatus();
  for (size_t place = places(); place-- > 0;) {
    RETURN_IF_ERROR(graph_->Prepare(SliceExamples() - 1, place));
  }
  return absl::OkStatus();
}

absl::Status KerasProgram::PlanMemory(const Batch& schema) {
  if (ops_->host_memory()) return absl::OkStatus();
  ops_->BeginPlan();
  rehearsing_ = true;
  const absl::Status rehearsed = Rehearse(schema);
  rehearsing_ = false;
  memory_ = MemoryRows();
  graph_->Release();
  copies_.Release();
  absl::Status planned = ops_->EndPlan(plan_);
  RETURN_IF_ERROR(rehearsed);
  if (plan_.needed > 0) {
    memory_.push_back({MemoryRow::Kind::kWork, "", plan_.work});
    memory_.push_back({MemoryRow::Kind::kCode, "", plan_.code});
  }
  if (!absl::IsResourceExhausted(planned)) return planned;
  std::stable_sort(memory_.begin(), memory_.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text = absl::StrCat("the model does not fit into the GPU's memory: batches of ",
                                  SliceExamples(), " need ", plan_.needed, " bytes, ", plan_.free,
                                  " of ", plan_.total, " are free; the most is taken by");
  for (size_t i = 0; i < std::min(kLargest, memory_.size()); ++i) {
    const MemoryRow& row = memory_[i];
    absl::StrAppend(&text, i == 0 ? " " : "; ", row.what.empty() ? NameOf(row.kind) : row.what,
                    ": ", row.bytes, " bytes");
  }
  return absl::ResourceExhaustedError(text);
}

std::vector<MemoryRow> KerasProgram::MemoryRows() const {
  std::vector<MemoryRow> rows = graph_->Memory();
  int64_t batch = copies_.batch_bytes();
  if (ops_->host_memory()) {  // without a copy the data still occupies memory
    int64_t each = 0;
    for (const Column& column : data_->schema()) each += Elements(ShapeOf(column));
    for (const ModelHead& head : heads_) each += head.targets_each;
    batch = job_.batch * each * int64_t{sizeof(float)};
  }
  rows.push_back({MemoryRow::Kind::kBatch, "the batch", batch});
  for (size_t v = 0; v < variables().size(); ++v) {
    if (!graph_->OwnsVariable(v)) continue;
    const int64_t arrays = variables()[v].trainable() ? 2 : 1;
    rows.push_back({MemoryRow::Kind::kParameters,
                    variables()[v].name() + (arrays == 2 ? " and its gradient" : ""),
                    arrays * FloatsMost(v) * int64_t{sizeof(float)}});
  }
  return rows;
}

std::string KerasProgram::Memory() const {
  std::map<MemoryRow::Kind, int64_t> kinds;
  int64_t all = 0;
  for (const MemoryRow& row : ops_->host_memory() ? MemoryRows() : memory_) {
    kinds[row.kind] += row.bytes;
    all += row.bytes;
  }
  std::string text = absl::StrCat("memory for batches of ", SliceExamples(), ": ",
                                  Bytes(plan_.needed > 0 ? plan_.needed : all), " (");
  const char* between = "";
  for (const auto& [kind, bytes] : kinds) {
    if (bytes == 0) continue;
    absl::StrAppend(&text, between, NameOf(kind), " ", Bytes(bytes));
    between = ", ";
  }
  text += ")";
  if (plan_.needed > 0) {
    absl::StrAppend(&text, ", of the GPU's ", Bytes(plan_.total), ", of which ", Bytes(plan_.free),
                    " were free");
  }
  if (graph_->PrecisionInVain()) {
    absl::StrAppend(&text, "; it computes in float32: nothing of less precision is faster there");
  }
  return text;
}

}  // namespace paracord
