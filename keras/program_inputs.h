// How a batch's columns feed a graph: the column of each input, the validity of its numbers for the
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
  // For each input of the graph, `columns` has the column's index in a batch of this schema, and
  // `whole` tells whether the InputLayer takes whole numbers. `examples`: of the largest training
  // batch.
  ProgramInputs(const Graph& graph, std::vector<Column> schema, std::vector<size_t> columns,
                std::vector<bool> whole, int64_t examples);

  const std::vector<Column>& schema() const { return schema_; }
  const std::vector<size_t>& columns() const { return columns_; }
  const TableIds& tables() const { return tables_; }

  absl::Status CheckShapes(const Batch& batch) const;
  // Checks embedding ids from the data, and whole numbers beyond float32's precision.
  absl::Status CheckIds(const Batch& batch) const;
  // Returns the values of an input in the graph's encoding.
  absl::StatusOr<std::span<const float>> Values(const Batch& batch, size_t input);

  // The following batches read these rows of tables; null: all rows. Returns the number of each
  // variable's rows, for Graph::UseRows.
  std::vector<int64_t> UseRows(std::shared_ptr<const NumberedRows> rows);
  bool has_rows() const { return rows_ != nullptr; }

  // Returns NaN if an input is not finite, the loss of such a batch in Keras; else 0. oneDNN's
  // fused ReLU turns a NaN into 0, hence the explicit check.
  double NanUnlessFinite(const Batch& batch) const;
  // Sets predictions of examples with non-finite inputs to NaN, because layers may hide them.
  void HideRows(const Batch& batch, std::vector<float>& values) const;

 private:
  const Graph& graph_;
  const std::vector<Column> schema_;
  const std::vector<size_t> columns_;
  const std::vector<bool> whole_;
  const TableIds tables_;
  std::shared_ptr<const NumberedRows> rows_;  // table rows read by the batch; null: all
  std::vector<std::vector<float>> row_ids_;   // indexed by graph input, for large tables
  std::vector<int64_t> whole_numbers_;        // scratch memory
};

}  // namespace paracord
