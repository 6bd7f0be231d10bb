// Has variables whole, or the rows of tables in a checkpoint's files, and all rows that growing
// tables have: a batch gets those rows of the tables that it reads, some of which may have no
// values yet but their first ones. Used on the thread that computes; whatever it is made of must
// live longer.
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

// The variables are in the order of the model's.
struct WholeVariables {
  std::vector<std::span<const float>> values;
  std::vector<std::span<const uint64_t>> ids;  // ascending, of growing tables
  // Has the rows of tables without values; null: there is no such table. `places` has, by variable,
  // its index in the checkpoint.
  const CheckpointRows* rows = nullptr;
  std::vector<size_t> places = {};
};

class RowsForBatch {
 public:
  // INVALID_ARGUMENT as MakeRowInitializer; or rows are in files of a variable that is no table of
  // the model.
  static absl::StatusOr<RowsForBatch> Make(std::span<const VariableSpec> variables,
                                           const WholeVariables& whole, uint64_t seed);

  // Whether a batch has to be given its rows; else `whole` has everything.
  bool any() const { return any_; }
  ConstTensors whole() const { return whole_.values; }
  // Returns what a batch with these rows reads, valid until the next call. An error is that of
  // reading a checkpoint's file.
  absl::StatusOr<ConstTensors> Of(const TableRows& rows);

 private:
  struct Table {
    bool is_table = false;
    uint64_t width = 0;
    RowInitializer first;            // of growing ones
    std::optional<size_t> in_files;  // index among the checkpoint's variables
  };
  absl::Status ReadRows(const Table& table, std::span<const uint64_t> ids, std::span<float> to);
  void CopyRows(size_t variable, std::span<const uint64_t> ids, std::span<float> to) const;

  bool any_ = false;  // growing ones, or rows in files
  WholeVariables whole_;
  std::vector<Table> tables_;
  std::vector<std::vector<float>> gathered_;
  std::vector<std::span<const float>> spans_;
  std::vector<char> there_;
};

}  // namespace paracord
