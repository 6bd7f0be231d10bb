// Has variables whole, and all rows that growing tables have: a batch gets those rows of the tables
// that it reads, some of which may have no values yet but their first ones. Used on the thread that
// computes; whatever it is made of must live longer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "program/gradient_program.h"
#include "store/initializer.h"

namespace paracord {

// The variables are in the order of the model's.
struct WholeVariables {
  std::vector<std::span<const float>> values;
  std::vector<std::span<const uint64_t>> ids;  // ascending, of growing tables
};

class RowsOfWhole {
 public:
  // INVALID_ARGUMENT as MakeRowInitializer.
  static absl::StatusOr<RowsOfWhole> Make(std::span<const VariableSpec> variables,
                                          const WholeVariables& whole, uint64_t seed);

  bool any() const { return any_; }
  ConstTensors whole() const { return whole_.values; }
  // Returns what a batch with these rows reads, valid until the next call.
  ConstTensors Of(const TableRows& rows);

 private:
  struct Table {
    bool is_table = false;
    uint64_t width = 0;
    RowInitializer first;  // of growing ones
  };

  bool any_ = false;  // growing ones
  WholeVariables whole_;
  std::vector<Table> tables_;
  std::vector<std::vector<float>> gathered_;
  std::vector<std::span<const float>> spans_;
};

}  // namespace paracord
