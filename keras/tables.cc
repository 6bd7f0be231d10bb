#include "keras/tables.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "config/named_spec.h"
#include "config/tables.h"
#include "config/unknown_name.h"
#include "keras/layers/layer_config.h"
#include "keras/preprocessing/preprocessor.h"

namespace paracord {
namespace {

constexpr uint64_t kAutoBytes = uint64_t{1} << 20;  // a smaller table may as well move whole

bool IsEmbedding(const LayerSpec& layer) { return LooksUpIds(layer) && !layer.unusable; }

bool Says(const LayerSpec& layer, const char* key) {
  const auto value = layer.config.find(key);
  return value != layer.config.end() && !value->is_null();
}

uint64_t BytesOf(const LayerSpec& layer) {
  uint64_t bytes = sizeof(float);
  for (const char* key : {"input_dim", "output_dim"}) {
    const auto value = layer.config.find(key);
    const bool usable = value != layer.config.end() && value->is_number_integer();
    bytes *= usable ? static_cast<uint64_t>(std::max<int64_t>(value->get<int64_t>(), 0)) : 0;
  }
  return bytes;
}

bool Trains(const ModelSpec& model, const LayerSpec& layer) {
  const auto trainable = layer.config.find("trainable");
  return !model.frozen && (trainable == layer.config.end() || *trainable != false);
}

// Whether the layer's ids are known before any computation.
bool ReadsInputs(const ModelSpec& model, size_t layer) {
  bool called = false;
  for (const NodeSpec& node : model.nodes) {
    if (node.layer != layer || node.constant.has_value() || node.output > 0) continue;
    if (node.hands_mask || node.inputs.empty()) return false;
    const NodeSpec& ids = model.nodes[node.inputs[0]];
    if (!IsInput(ids) && !ids.unknown) return false;
    called = true;
  }
  return called;
}

// Why the rows of a batch do not determine the whole gradient; empty: they do.
std::string WhyNotExact(const NamedSpec& optimizer, const LayerSpec& layer) {
  if (Says(layer, "embeddings_regularizer")) return "its regularizer acts on every row";
  if (Says(layer, "embeddings_constraint")) return "its constraint acts on every row";
  return WhyRowsDiffer(optimizer);
}

std::string Lazily(const std::string& name) {
  return absl::StrCat(R"("tables": {")", name, R"(": {"update": "lazy"}})");
}

// The reason why a layer named by the job cannot be a table; "" if it can.
std::string WhyNot(const Job& job, const ModelSpec& model, size_t index,
                   const TablesSpec::Table& wanted) {
  const LayerSpec& layer = model.layers[index];
  if (wanted.dense) return "";
  if (!Trains(model, layer)) return "is not trained, so that it moves once: its kind is \"dense\"";
  if (!ReadsInputs(model, index)) {
    return "cannot be a table: its ids must be an input of the model, or what preprocessing layers "
           "(Hashing, StringLookup, IntegerLookup, ...) make of one";
  }
  const NamedSpec& optimizer = wanted.optimizer.has_value() ? *wanted.optimizer : job.optimizer;
  const std::string why = wanted.lazy ? "" : WhyNotExact(optimizer, layer);
  if (why.empty()) return "";
  return absl::StrCat("cannot be a table as it is: ", why,
                      "; \"update\": \"lazy\" acts on the rows of a batch alone, \"kind\": "
                      "\"dense\" moves all of it");
}

ChosenTable ChosenOf(const TablesSpec::Table& wanted) {
  return {TableSpecOf(wanted), wanted.growing ? wanted.shards : 0};
}

std::string GrowingNote(const LayerSpec& layer, const TablesSpec::Table& table) {
  std::string text = absl::StrCat(LayerTitle(layer.class_name, layer.name),
                                  ": a growing table, of which the rows of the batch travel; an id "
                                  "has a row from its ");
  const auto add = [&](const auto&... parts) { absl::StrAppend(&text, parts...); };
  if (table.admit_after > 1) {
    add(table.admit_after,
        table.admit_after == 2   ? "nd"
        : table.admit_after == 3 ? "rd"
                                 : "th",
        " appearance on");
  } else {
    add("first gradient on");
  }
  if (table.admit_probability < 1) add(", with a probability of ", table.admit_probability);
  if (table.expire_batches != 0) add(", until ", table.expire_batches, " batches do not touch it");
  if (table.rows_max != 0) add("; at most ", table.rows_max, " rows");
  return text;
}

void ReportUnknownNames(const Job& job, const ModelSpec& model, Problems& problems) {
  std::vector<std::string_view> known;
  for (const LayerSpec& layer : model.layers) {
    if (IsEmbedding(layer)) known.push_back(layer.name);
  }
  for (const auto& [name, table] : job.tables.by_layer) {
    if (std::ranges::find(known, name) != known.end()) continue;
    problems.Add(absl::StrCat("tables.", name),
                 known.empty() ? "the model has no Embedding"
                               : absl::StrCat("names no Embedding of the model; \"", name, "\"",
                                              NotSupported(name, known)));
  }
}

}  // namespace

TableLayers ChooseTables(const Job& job, const ModelSpec& model, Problems& problems,
                         std::vector<std::string>* notes) {
  TableLayers tables;
  ReportUnknownNames(job, model, problems);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    if (!IsEmbedding(layer)) continue;
    const auto named = job.tables.by_layer.find(layer.name);
    if (named != job.tables.by_layer.end()) {
      const std::string why = WhyNot(job, model, i, named->second);
      if (!why.empty()) problems.Add(absl::StrCat("tables.", layer.name), why);
      if (!why.empty() || named->second.dense) continue;
      tables[i] = ChosenOf(named->second);
      if (named->second.growing && notes != nullptr) {
        notes->push_back(GrowingNote(layer, named->second));
      }
      continue;
    }
    if (!job.tables.automatic || BytesOf(layer) < kAutoBytes || !Trains(model, layer)) continue;
    const bool reads_inputs = ReadsInputs(model, i);
    const std::string why =
        reads_inputs ? WhyNotExact(job.optimizer, layer) : "its ids are computed by the model";
    if (why.empty()) tables[i] = ChosenOf({});
    if (why.empty() || notes == nullptr) continue;
    notes->push_back(absl::StrCat(
        LayerTitle(layer.class_name, layer.name), ": all of it, ", HumanBytes(BytesOf(layer)),
        ", travels both ways every step, because ", why,
        reads_inputs ? absl::StrCat("; ", Lazily(layer.name), " would move the rows of the batch")
                     : "; ids that are an input of the model would move the rows of the batch"));
  }
  return tables;
}

std::vector<std::string> TableNotes(const Job& job) {
  std::vector<std::string> notes;
  absl::StatusOr<ModelSpec> model = ReadKerasModel(job.model);
  if (!model.ok() || !model->problems.empty()) return notes;
  Problems problems;  // reported by the builder of the model
  Preprocessor::TakeOut(*model, nullptr, problems);
  ChooseTables(job, *model, problems, &notes);
  return notes;
}

}  // namespace paracord
