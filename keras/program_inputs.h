// How a batch's columns feed a graph: which column each input takes, whether its numbers are ones
// that the model takes, and the form in which ids of large tables are given (row_ids.h). Owned by
// the program (keras_program.h); used by one thread at a time.
//
// Invariant: between two calls of UseRows all batches are read by the same rows of tables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keras/graph.h"
#include "keras/table_ids.h"
#include "program/gradient_program.h"

namespace paracord {

class ProgramInputs {
 public:
  // For each input of the graph, `columns` has its column in a batch of this schema, and `whole`
  // says whether its InputLayer takes whole numbers. `examples`: of the largest batch of training.
  ProgramInputs(const Graph& graph, std::vector<Column> schema, std::vector<size_t> columns,
                std::vector<bool> whole, int64_t examples);

  const std::vector<Column>& schema() const { return schema_; }
  const std::vector<size_t>& columns() const { return columns_; }
  const TableIds& tables() const { return tables_; }

  absl::Status CheckShapes(const Batch& batch) const;
  // Checks ids that go straight into an embedding, and whole numbers that float32 cannot represent.
  absl::Status CheckIds(const Batch& batch) const;
  // Returns the values of an input in the form that the graph takes.
  absl::StatusOr<std::span<const float>> Values(const Batch& batch, size_t input);

  // The batches that follow are read by these rows of tables; null: by all rows. Returns how many
  // rows each variable has, for Graph::UseRows.
  std::vector<int64_t> UseRows(std::shared_ptr<const NumberedRows> rows);
  bool has_rows() const { return rows_ != nullptr; }

  // The loss of an input that is not finite is NaN, as in Keras. oneDNN's fused ReLU turns a NaN
  // into 0, so that the inputs have to be checked. Returns 0 if all are finite.
  double NanUnlessFinite(const Batch& batch) const;
  // Sets predictions of examples whose input is not finite to NaN, because such inputs may get lost
  // inside.
  void HideRows(const Batch& batch, std::vector<float>& values) const;

 private:
  const Graph& graph_;
  const std::vector<Column> schema_;
  const std::vector<size_t> columns_;
  const std::vector<bool> whole_;
  const TableIds tables_;
  std::shared_ptr<const NumberedRows> rows_;  // of tables, that the batch reads; null: all
  std::vector<std::vector<float>> row_ids_;   // by input of the graph, of large tables
  std::vector<int64_t> whole_numbers_;        // scratch memory
};

}  // namespace paracord
