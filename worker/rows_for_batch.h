// Gives each batch the rows of tables that the batch reads, from variables at hand or from the
// files of a checkpoint. A row of a growing table without values has its initial values. Used on
// the thread that computes; everything passed in must live longer.
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

// The variables, in the model's order.
struct WholeVariables {
  std::vector<std::span<const float>> values;
  std::vector<std::span<const uint64_t>> ids;  // ascending ids of growing tables
  // Reads the rows of tables without `values`; null: no table lacks values. `places`: by variable,
  // the index in the checkpoint.
  const CheckpointRows* rows = nullptr;
  std::vector<size_t> places = {};
};

class RowsForBatch {
 public:
  // INVALID_ARGUMENT as for MakeRowInitializer, or if a variable with rows in files is no table of
  // the model.
  static absl::StatusOr<RowsForBatch> Make(std::span<const VariableSpec> variables,
                                           const WholeVariables& whole, uint64_t seed);

  // Whether batches have to be given rows; otherwise `whole` has everything.
  bool any() const { return any_; }
  ConstTensors whole() const { return whole_.values; }
  // Returns the variables for a batch with these rows, valid until the next call. Errors are those
  // of reading the checkpoint's files.
  absl::StatusOr<ConstTensors> Of(const TableRows& rows);

 private:
  struct Table {
    bool is_table = false;
    uint64_t width = 0;
    RowInitializer first;            // for growing tables
    std::optional<size_t> in_files;  // index among the checkpoint's variables
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
