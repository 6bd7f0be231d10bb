// Gives each batch the rows of tables that the batch reads, from variables in memory or from the
// files of a checkpoint. A row that a growing table does not have yet gets its initial values. Used
// on the thread that computes; what WholeVariables points to must outlive a RowsForBatch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "program/gradient_program.h"
#include "storage/checkpoint_rows.h"
#include "store/initializer.h"

namespace paracord {

// The variables of a model, in the model's order.
struct WholeVariables {
  std::vector<std::span<const float>> values;
  // For a growing table the ascending ids of the rows in `values`; empty for other variables.
  std::vector<std::span<const uint64_t>> ids;
  // Reads the rows of tables whose rows are not in `values`; null: all rows are in `values`.
  const CheckpointRows* rows = nullptr;
  std::vector<size_t> places = {};  // with `rows`: for each variable its index in `rows`
};

class RowsForBatch {
 public:
  // `seed`: the job's seed. INVALID_ARGUMENT if MakeRowInitializer refuses a growing table, or if a
  // variable whose rows are in files is no table of the model.
  static absl::StatusOr<RowsForBatch> Make(std::span<const VariableSpec> variables,
                                           const WholeVariables& whole, uint64_t seed);

  // Whether Of has to be called for each batch. If not, all batches can use whole().
  bool any() const { return any_; }
  ConstTensors whole() const { return whole_.values; }
  // Returns the variables for a batch that reads `rows`, valid until the next call of Of. Errors
  // are those of reading the checkpoint's files.
  absl::StatusOr<ConstTensors> Of(const TableRows& rows);

 private:
  struct Table {
    bool is_table = false;
    uint64_t width = 0;
    RowInitializer first;            // makes initial values of a row; null: the table does not grow
    std::optional<size_t> in_files;  // index in WholeVariables::rows; nullopt: not in files
  };
  absl::Status ReadRows(const Table& table, std::span<const uint64_t> ids, std::span<float> to);
  void CopyRows(size_t variable, std::span<const uint64_t> ids, std::span<float> to) const;

  bool any_ = false;  // some table grows or has rows in files
  WholeVariables whole_;
  std::vector<Table> tables_;
  std::vector<std::vector<float>> gathered_;
  std::vector<std::span<const float>> spans_;
  std::vector<char> there_;
};

}  // namespace paracord
