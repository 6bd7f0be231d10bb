// The preprocessing layers in front of a model. They are taken out of its graph, which gets their
// outputs as inputs, and computed from the data. Owned by the program, used by its thread. It does
// not know what a layer does (step.h), nor the graph that remains.
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
  // Returns null if the model has no such layers. Otherwise it removes from `model` the layers that
  // depend on the data alone and the inputs that nothing else needs, and `schema` gets the inputs
  // that remain. Problems name the layer. With a problem, or without a schema (null: there are no
  // data), it looks at all layers, returns null, and marks the nodes of `model` as unknown.
  static std::unique_ptr<Preprocessor> TakeOut(ModelSpec& model, Batch* schema, Problems& problems);

  // Computes the layers. `ready` gets the batch as the rest of the model takes it, and its memory
  // is reused. INVALID_ARGUMENT names the record that has a value which a layer cannot take.
  absl::Status Run(const Batch& batch, Batch& ready);

  // Adds the unknown values in the batch that was run last, by layer.
  void CountUnknown(LookupCounts& counts) const;

  // The rows of these layers in the table for people.
  const std::vector<LayerRow>& rows() const { return rows_; }

 private:
  struct Value {
    RawType type;
    std::optional<size_t> column;  // of the data; else it is computed
    const PreprocessingStep* step = nullptr;
    std::vector<size_t> inputs;     // values
    std::vector<int64_t> integers;  // of a column that gives them
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

  std::map<size_t, size_t> values_of_;  // by node of the model
  std::vector<Value> values_;           // each after those that it needs
  std::vector<std::unique_ptr<PreprocessingStep>> steps_;
  std::map<size_t, size_t> step_of_layer_;
  std::vector<Column> columns_;  // of the data, as the schema has them
  std::vector<size_t> exports_;  // values, in the order of the new inputs
  std::vector<LayerRow> rows_;
};

// Returns false, and notes a problem, if some column of the data is too large to be used.
bool CheckColumns(const Batch& schema, Problems& problems);

// Returns the data's columns in the order of the model's inputs.
absl::StatusOr<std::vector<size_t>> MatchInputs(const ModelSpec& model, const Batch& schema);

// Whether an InputLayer says that it takes whole numbers.
bool IsWhole(const LayerSpec& input);

// Returns the kind of values that each input of the model takes, by its names, for a caller that
// makes batches from bytes.
absl::StatusOr<std::map<std::string, RawKind>> InputKinds(const nlohmann::json& model);

}  // namespace paracord
