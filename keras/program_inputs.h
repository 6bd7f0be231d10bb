// How a batch's columns become the inputs of a graph: which column is which input, which numbers
// the model can take, and how ids of tables and of embeddings with more than 2^24 rows are encoded
// (table_ids.h, row_ids.h). Owned by the program (keras_program.h); used by one thread at a time.
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
  // `columns` has for each input of the graph the index of its column in `schema`, the columns of
  // Batch::inputs. `whole` says for each input whether its InputLayer takes whole numbers.
  // `examples` is the number of examples of the largest training batch.
  ProgramInputs(const Graph& graph, std::vector<Column> schema, std::vector<size_t> columns,
                std::vector<bool> whole, int64_t examples);

  const std::vector<Column>& schema() const { return schema_; }
  const std::vector<size_t>& columns() const { return columns_; }
  const TableIds& tables() const { return tables_; }

  absl::Status CheckShapes(const Batch& batch) const;
  // Checks the ids of embeddings of at most 2^24 rows, but for those that TableIds::RowsOf checks.
  // In other inputs of whole numbers, refuses numbers that float32 would round. INVALID_ARGUMENT
  // names the record.
  absl::Status CheckIds(const Batch& batch) const;
  // Returns the values of an input as the graph takes them. INVALID_ARGUMENT: an id is not in an
  // embedding of more than 2^24 rows; the error names the record.
  absl::StatusOr<std::span<const float>> Values(const Batch& batch, size_t input);

  // From now on tables have the rows `rows` alone, and each batch must be the one for which
  // TableIds::RowsOf returned them; null: tables have all rows, and any batch may come. Returns the
  // argument of Graph::UseRows.
  std::vector<int64_t> UseRows(std::shared_ptr<const NumberedRows> rows);
  bool has_rows() const { return rows_ != nullptr; }

  // Returns NaN if an input has a number that is not finite, otherwise 0. Added to the loss because
  // the graph may lose a NaN, which oneDNN's fused ReLU turns into 0.
  double NanUnlessFinite(const Batch& batch) const;
  // Sets to NaN the predictions `values` for examples with an input that is not finite.
  void HideRows(const Batch& batch, std::vector<float>& values) const;

 private:
  const Graph& graph_;
  const std::vector<Column> schema_;
  const std::vector<size_t> columns_;
  const std::vector<bool> whole_;
  const TableIds tables_;
  std::shared_ptr<const NumberedRows> rows_;  // the argument of the last UseRows
  // Indexed by input of the graph: the results of Values for embeddings of more than 2^24 rows.
  std::vector<std::vector<float>> row_ids_;
  std::vector<int64_t> whole_numbers_;        // scratch memory
};

}  // namespace paracord
