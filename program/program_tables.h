// The tables of a job's program, which runs in a process (proto/PROGRAM.md) or is of StableHLO
// (PROGRAM_FILE.md). Of a table the program receives only the rows that a batch reads, and in place
// of each id a local number: the index of the id's row among the received rows. Thread-safe.
//
// The received row 0 always belongs to id 0, which often means "nothing": if a batch lacks id 0,
// the received row 0 is zeros, and the local numbers of the batch's ids begin at 1.
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

// The rows that a batch reads of each table, with the local numbers of the batch's ids.
struct ProgramRows : TableRows {
  // For each input of the data the local numbers of its ids; empty if no table reads the input.
  std::vector<std::vector<int64_t>> numbers;

  // The local number of the first of the variable's `ids`: 1 if row 0 is the extra row of zeros.
  uint64_t First(size_t variable) const {
    return ids[variable].empty() || ids[variable][0] != 0 ? 1 : 0;
  }
};

struct RowsInUse {
  std::shared_ptr<const ProgramRows> rows;  // the rows that the batch reads; null: no tables
  bool whole = false;  // true: the caller's arrays of tables hold all rows; false: only `rows`

  // How many rows of a table the program receives, including an extra row of zeros.
  uint64_t Count(size_t variable) const {
    return rows->First(variable) + rows->ids[variable].size();
  }
  // The local numbers of an input of the data; null if no table reads the input.
  const std::vector<int64_t>* Numbers(size_t input) const {
    return rows == nullptr || rows->numbers[input].empty() ? nullptr : &rows->numbers[input];
  }
};

class ProgramTables {
 public:
  ProgramTables() = default;
  // Takes the tables that the program declares. A table that the job wants "dense" is none for the
  // ps, and the program receives all its rows. Changes `variables` from how the program declares
  // them to how the ps store them. INVALID_ARGUMENT says what is wrong.
  static absl::StatusOr<ProgramTables> Make(const Job& job, const ProgramHello& hello,
                                            const Batch& schema,
                                            std::vector<VariableSpec>& variables);

  bool any() const { return any_; }                   // whether by_rows() is true for a variable
  bool declares() const { return !groups_.empty(); }  // whether declared() is true for a variable
  bool declared(size_t variable) const { return room_.rows[variable].has_value(); }
  // Whether the program receives only the rows of the variable that a batch reads.
  bool by_rows(size_t variable) const { return declared(variable) && !dense_[variable]; }
  const TableRoom& room() const { return room_; }
  uint64_t width(size_t variable) const { return widths_[variable]; }  // the elements of a row

  // Describes a declared table for people, as the end of a line; "" for other variables.
  std::string Describe(size_t variable) const;

  // INVALID_ARGUMENT names a record whose id is no whole number or outside its table.
  absl::StatusOr<std::shared_ptr<const ProgramRows>> RowsOf(const Batch& batch) const;
  // INVALID_ARGUMENT if `rows` has more ids of a table than the program declares as its capacity.
  absl::Status CheckRoom(const ProgramRows& rows) const;
  // `rows`: those of the last GradientProgram::UseRows. If `rows` is null, the result has
  // RowsOf(batch), and `whole` is true.
  absl::StatusOr<RowsInUse> InUse(const Batch& batch,
                                  const std::shared_ptr<const TableRows>& rows) const;

  // Copies the rows of a table that the program receives from the caller's array `values` to `to`,
  // and returns the end of the written rows.
  float* PutRows(size_t variable, const RowsInUse& use, std::span<const float> values,
                 float* to) const;
  // Copies a table's gradient from the program's array `from` to the caller's array `to`.
  void TakeGradient(size_t variable, const RowsInUse& use, const float* from,
                    std::span<float> to) const;

 private:
  // Tables that read the same inputs and hence have the same local numbers.
  struct Group {
    std::vector<size_t> inputs;  // indices among the data's inputs, ascending
    std::vector<size_t> variables;
    size_t smallest = 0;  // the variable with the fewest rows
    uint64_t rows = 0;    // the rows of `smallest`; 0: growing tables, whose ids are any 64 bits
    uint64_t shards = 0;  // the shards of each growing table; 0: the tables do not grow
    bool dense = false;   // the program receives all rows
  };
  void Add(size_t variable, const DeclaredTable& declared, const TablesSpec::Table& kind,
           const Batch& schema, uint64_t batch, Problems& problems);
  void Number(const Group& group, const Batch& batch, std::vector<uint64_t>& ids,
              ProgramRows& rows) const;

  std::vector<VariableSpec> variables_;
  std::vector<Group> groups_;
  std::vector<bool> dense_;       // indexed by variable
  std::vector<uint64_t> most_;    // index: variable; the most different ids of a batch
  std::vector<uint64_t> widths_;  // indexed by variable
  TableRoom room_;
  bool any_ = false;
};

}  // namespace paracord
