// The tables of a program, in a process (proto/PROGRAM.md) or of StableHLO (PROGRAM_FILE.md), are
// variables of which it is given the rows alone that a batch reads, and local numbers in the place
// of ids. A ProgramTables is immutable, and any thread may use it.
//
// Row 0 that the program is given belongs to id 0, which often means that there is nothing: if a
// batch lacks that id, the row is zeros, and the batch's rows begin at 1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "program/program_packets.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The rows that a batch reads of each table, and the local number of each id by input of the data;
// empty for an input that no table reads.
struct ProgramRows : TableRows {
  std::vector<std::vector<int64_t>> numbers;

  // The first row that the program is given and that is one of the variable's `ids`.
  uint64_t First(size_t variable) const {
    return ids[variable].empty() || ids[variable][0] != 0 ? 1 : 0;
  }
};

// The rows of tables that a batch reads, null if there are no tables, and whether the arrays of
// tables outside of the program have all rows or these alone.
struct RowsInUse {
  std::shared_ptr<const ProgramRows> rows;
  bool whole = false;

  // The rows of a table that the program is given.
  uint64_t Count(size_t variable) const {
    return rows->First(variable) + rows->ids[variable].size();
  }
  // The local numbers of an input of the data; null if no table reads it.
  const std::vector<int64_t>* Numbers(size_t input) const {
    return rows == nullptr || rows->numbers[input].empty() ? nullptr : &rows->numbers[input];
  }
};

class ProgramTables {
 public:
  ProgramTables() = default;
  // Makes tables of the variables that the program declares as such, unless the job's `tables` have
  // them move whole: then the child is given all rows. INVALID_ARGUMENT has a line for each
  // problem. `variables` are those of the program, and become what the ps keep.
  static absl::StatusOr<ProgramTables> Make(const Job& job, const ProgramHello& hello,
                                            const Batch& schema,
                                            std::vector<VariableSpec>& variables);

  // Whether any variable moves by rows, and whether any was declared as a table.
  bool any() const { return any_; }
  bool declares() const { return !groups_.empty(); }
  bool declared(size_t variable) const { return room_.rows[variable].has_value(); }
  // Whether the program is given the rows alone that a batch reads.
  bool by_rows(size_t variable) const { return declared(variable) && !dense_[variable]; }
  const TableRoom& room() const { return room_; }
  uint64_t width(size_t variable) const { return widths_[variable]; }  // numbers of a row

  // Says for people what a declared table is, after its variable; "" if it is none.
  std::string Describe(size_t variable) const;

  // INVALID_ARGUMENT names the record whose id is not in its table.
  absl::StatusOr<std::shared_ptr<const ProgramRows>> RowsOf(const Batch& batch) const;
  // INVALID_ARGUMENT if these are more rows than there is room for.
  absl::Status CheckRoom(const ProgramRows& rows) const;
  // The rows of `batch`, for which GradientProgram::UseRows was given `rows`.
  absl::StatusOr<RowsInUse> InUse(const Batch& batch,
                                  const std::shared_ptr<const TableRows>& rows) const;

  // Writes the rows of a table that the program is given, and returns where they end.
  float* PutRows(size_t variable, const RowsInUse& use, std::span<const float> values,
                 float* to) const;
  // Takes the gradient of the variable from one of these rows.
  void TakeGradient(size_t variable, const RowsInUse& use, const float* from,
                    std::span<float> to) const;

 private:
  // Tables that read the same inputs and so number their ids alike.
  struct Group {
    std::vector<size_t> inputs;  // of the data, ascending
    std::vector<size_t> variables;
    size_t smallest = 0;  // the variable with the fewest rows
    uint64_t rows = 0;    // of that; 0: ids are any 64 bits
    uint64_t shards = 0;  // of growing tables; 0: of others
    bool dense = false;
  };
  void Add(size_t variable, const DeclaredTable& declared, const TablesSpec::Table& kind,
           const Batch& schema, uint64_t batch, Problems& problems);
  void Number(const Group& group, const Batch& batch, std::vector<uint64_t>& ids,
              ProgramRows& rows) const;

  std::vector<VariableSpec> variables_;
  std::vector<Group> groups_;
  std::vector<bool> dense_;       // by variable
  std::vector<uint64_t> most_;    // different ids of a batch, by variable
  std::vector<uint64_t> widths_;  // by variable
  TableRoom room_;
  bool any_ = false;
};

}  // namespace paracord
