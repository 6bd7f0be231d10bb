// The preprocessing layers in front of a model: removed from the graph, which gets the layers'
// outputs as inputs, and computed from the data. Owned by the program, used by its thread. Knows
// neither the meaning of layers (step.h) nor the remaining graph.
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
  // preprocessing layers that depend on the data alone, and inputs that only such layers read;
  // `schema` gets the columns of the remaining inputs. Problems name the layer. With a problem, or
  // without a schema (null: no data), checks all layers, returns null, and marks the layers' nodes
  // in `model` as unknown.
  static std::unique_ptr<Preprocessor> TakeOut(ModelSpec& model, Batch* schema, Problems& problems);

  // Computes the layers. `ready` gets the batch for the rest of the model; its memory is reused.
  // INVALID_ARGUMENT names a record with a value that a layer cannot take, or an input that differs
  // from the schema. RESOURCE_EXHAUSTED: no memory for the results.
  absl::Status Run(const Batch& batch, Batch& ready);

  // Adds, by layer, how many values the last Run looked up, and how many the vocabulary lacks.
  void CountUnknown(LookupCounts& counts) const;

  // The layers' rows in the table that `paracord validate` prints.
  const std::vector<LayerRow>& rows() const { return rows_; }

 private:
  struct Value {
    RawType type;
    std::optional<size_t> column;  // index in Batch::inputs; nullopt: `step` computes the value
    const PreprocessingStep* step = nullptr;
    std::vector<size_t> inputs;     // indices in values_ of the step's inputs
    std::vector<int64_t> integers;  // a column's values as whole numbers
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
  std::vector<Value> values_;           // a value comes after its inputs
  std::vector<std::unique_ptr<PreprocessingStep>> steps_;
  std::map<size_t, size_t> step_of_layer_;
  std::vector<Column> columns_;  // the inputs of the data's schema
  std::vector<size_t> exports_;  // indices in values_, in the order of the remaining model's inputs
  std::vector<LayerRow> rows_;
};

// Returns false, and adds a problem, if a column of inputs or targets has an axis of size 0 or is
// too large.
bool CheckColumns(const Batch& schema, Problems& problems);

// Returns the column of Batch::inputs for each input of the model, by name, or the only column for
// the only input. INVALID_ARGUMENT names inputs without a column.
absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema);

// Whether an InputLayer declares whole numbers as its dtype.
bool IsWhole(const LayerSpec& input);

// Returns the kind of values of each input of the model, by the input's names. Errors are those of
// ReadKerasModel.
absl::StatusOr<std::map<std::string, RawKind>> InputKinds(const nlohmann::json& model);

}  // namespace paracord
