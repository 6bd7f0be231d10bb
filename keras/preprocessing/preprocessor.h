// The preprocessing layers in front of a model: removed from its graph, which gets their outputs as
// inputs, and computed from the data. Owned by the program, used by its thread. Knows neither the
// layers' meaning (step.h) nor the remaining graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "keras/graph.h"
#include "keras/json.h"
#include "keras/preprocessing/step.h"
#include "program/gradient_program.h"

namespace paracord {

class Preprocessor {
 public:
  // Returns null if the model has no preprocessing layers. Otherwise removes from `model` the
  // layers that depend on the data alone, and the inputs needed by nothing else; `schema` gets the
  // remaining inputs. Problems name the layer. With a problem, or without a schema (null: no data),
  // checks all layers, returns null, and marks the nodes of `model` as unknown.
  static std::unique_ptr<Preprocessor> TakeOut(ModelSpec& model, Batch* schema, Problems& problems);

  // Computes the layers. `ready` gets the batch for the rest of the model; its memory is reused.
  // INVALID_ARGUMENT names a record with a value that a layer cannot take.
  absl::Status Run(const Batch& batch, Batch& ready);

  // Adds the unknown values in the last batch of Run, by layer.
  void CountUnknown(LookupCounts& counts) const;

  // The layers' rows in the table for people.
  const std::vector<LayerRow>& rows() const { return rows_; }

 private:
  struct Value {
    RawType type;
    std::optional<size_t> column;  // index in the data; nullopt: computed
    const PreprocessingStep* step = nullptr;
    std::vector<size_t> inputs;     // values
    std::vector<int64_t> integers;  // from a column of integers
    RawValues computed;
    RawView view;
  };

  absl::Status AddInput(const ModelSpec& model, size_t node, std::span<const size_t> columns);
  absl::Status MakeStep(const ModelSpec& model, size_t node);
  bool IsMade(const ModelSpec& model, size_t node) const;
  absl::Status AddStep(const ModelSpec& model, size_t node);
  void MarkUnknown(const std::vector<bool>& raw, bool has_data, ModelSpec& model) const;
  absl::Status Rewrite(ModelSpec& model, Batch& schema);
  absl::Status CheckExported(const ModelSpec& model, size_t node) const;
  absl::Status Bind(const Batch& batch, Value& value) const;
  static absl::Status CheckSigned(const Batch& batch, std::optional<size_t> input);

  std::map<size_t, size_t> values_of_;  // keyed by node of the model
  std::vector<Value> values_;           // in order: each after its inputs
  std::vector<std::unique_ptr<PreprocessingStep>> steps_;
  std::map<size_t, size_t> step_of_layer_;
  std::vector<Column> columns_;  // the schema's columns of the data
  std::vector<size_t> exports_;  // values, in the order of the new inputs
  std::vector<LayerRow> rows_;
};

// Returns false, and notes a problem, if some column of the data is too large to be used.
bool CheckColumns(const Batch& schema, Problems& problems);

// Returns the data's columns in the order of the model's inputs.
absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema);

// Whether an InputLayer declares whole numbers.
bool IsWhole(const LayerSpec& input);

// Returns the kind of values of each model input, by the input's names, for a caller that makes
// batches from bytes.
absl::StatusOr<std::map<std::string, RawKind>> InputKinds(const nlohmann::json& model);

}  // namespace paracord
