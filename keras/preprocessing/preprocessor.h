// The preprocessing layers in front of a model. They are removed from the model, which gets their
// outputs as inputs, and are computed from the data. Owned by the program, used by its thread.
// Knows neither the meaning of layers (step.h) nor the rest of the model.
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
  // Returns null if the model has no preprocessing layers that depend on the data alone. Otherwise
  // removes these layers from `model`, and the inputs that only they read; `schema` gets the
  // columns of the inputs that `model` then has. If there is a problem, or `schema` is null because
  // there are no data, checks all these layers, returns null, and marks their nodes and the inputs
  // of strings in `model` as unknown.
  static std::unique_ptr<Preprocessor> TakeOut(ModelSpec& model, Batch* schema, Problems& problems);

  // Computes the layers. `ready` becomes the batch for the rest of the model; its memory is reused.
  // INVALID_ARGUMENT: a layer cannot take a value, whose record the error names, or the batch does
  // not fit the schema. RESOURCE_EXHAUSTED: there is no memory for the results.
  absl::Status Run(const Batch& batch, Batch& ready);

  // Adds, for each vocabulary, how many values the last Run looked up, and how many were unknown.
  void CountUnknown(LookupCounts& counts) const;

  // The layers' rows in the table that `paracord validate` prints.
  const std::vector<LayerRow>& rows() const { return rows_; }

 private:
  struct Value {
    RawType type;
    std::optional<size_t> column;  // index in Batch::inputs; nullopt: `step` computes the value
    const PreprocessingStep* step = nullptr;
    std::vector<size_t> inputs;     // the step's inputs: indices in values_
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
  std::vector<size_t> exports_;  // the inputs of the rest of the model: indices in values_
  std::vector<LayerRow> rows_;
};

// Returns false, and adds a problem, if a column of inputs or targets has an axis of size 0 or
// above 2^31 - 1, or more than 2^40 elements in an example.
bool CheckColumns(const Batch& schema, Problems& problems);

// Returns for each input of the model the index in Batch::inputs of the column with its name; of a
// single input and column any name. INVALID_ARGUMENT names the inputs without a column.
absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema);

// Whether the dtype of the InputLayer `input` is one of whole numbers, or bool.
bool IsWhole(const LayerSpec& input);

// Returns the kind of values of each input of the model, keyed by each of the input's names. Errors
// are those of ReadKerasModel.
absl::StatusOr<std::map<std::string, RawKind>> InputKinds(const nlohmann::json& model);

}  // namespace paracord
