// How a batch's columns feed a graph: the column of each input, the validity of the numbers for the
// model, and the encoding of large tables' ids (row_ids.h). Owned by the program (keras_program.h);
// used by one thread at a time.
//
// Invariant: between two calls of UseRows all batches read the same rows of tables.
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
  // `columns` maps inputs of the graph to columns of `schema` (Batch::inputs). `whole` says for
  // each input whether the InputLayer takes whole numbers. `examples` is the number of examples of
  // the largest training batch.
  ProgramInputs(const Graph& graph, std::vector<Column> schema, std::vector<size_t> columns,
                std::vector<bool> whole, int64_t examples);

  const std::vector<Column>& schema() const { return schema_; }
  const std::vector<size_t>& columns() const { return columns_; }
  const TableIds& tables() const { return tables_; }

  absl::Status CheckShapes(const Batch& batch) const;
  // Checks ids of embeddings, unless RowsOf or Values checks them, and refuses whole numbers that
  // float32 would round. INVALID_ARGUMENT names the record.
  absl::Status CheckIds(const Batch& batch) const;
  // Returns the values of an input in the graph's encoding. INVALID_ARGUMENT names a record with an
  // id outside a large table.
  absl::StatusOr<std::span<const float>> Values(const Batch& batch, size_t input);

  // Sets the rows of tables that the following batches read; null: all rows. Returns the number of
  // rows of each variable, for Graph::UseRows.
  std::vector<int64_t> UseRows(std::shared_ptr<const NumberedRows> rows);
  bool has_rows() const { return rows_ != nullptr; }

  // Returns NaN, the loss of such a batch in Keras, if an input is not finite; else 0. A graph may
  // lose a NaN: oneDNN's fused ReLU turns it into 0.
  double NanUnlessFinite(const Batch& batch) const;
  // Sets the predictions of examples with inputs that are not finite to NaN.
  void HideRows(const Batch& batch, std::vector<float>& values) const;

 private:
  const Graph& graph_;
  const std::vector<Column> schema_;
  const std::vector<size_t> columns_;
  const std::vector<bool> whole_;
  const TableIds tables_;
  std::shared_ptr<const NumberedRows> rows_;  // the argument of the last UseRows
  std::vector<std::vector<float>> row_ids_;   // indexed by input of the graph: ids of large tables
  std::vector<int64_t> whole_numbers_;        // scratch memory
};

}  // namespace paracord
