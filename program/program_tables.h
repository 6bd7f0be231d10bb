// The tables of a program, in a process (proto/PROGRAM.md) or of StableHLO (PROGRAM_FILE.md):
// variables of which the program receives only the rows read by a batch, and local numbers in place
// of ids. A ProgramTables is immutable; any thread may use it.
//
// The program's row 0 belongs to id 0, often used for "nothing": if a batch lacks id 0, row 0 is
// zeros, and the batch's rows begin at 1.
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

// The rows of each table read by a batch, and the local number of each id by input of the data;
// empty for an input that no table reads.
struct ProgramRows : TableRows {
  std::vector<std::vector<int64_t>> numbers;

  // The program's first row among the variable's `ids`: 1 if row 0 is the extra row of zeros.
  uint64_t First(size_t variable) const {
    return ids[variable].empty() || ids[variable][0] != 0 ? 1 : 0;
  }
};

// The table rows read by a batch, null without tables, and whether arrays of tables outside the
// program hold all rows or only these.
struct RowsInUse {
  std::shared_ptr<const ProgramRows> rows;
  bool whole = false;

  // How many rows of a table the program receives.
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
  // Makes tables of the variables declared as such by the program. Where the job's `tables` move a
  // table whole, the child receives all rows. INVALID_ARGUMENT has a line for each problem.
  // `variables` are the program's, and become the ps's.
  static absl::StatusOr<ProgramTables> Make(const Job& job, const ProgramHello& hello,
                                            const Batch& schema,
                                            std::vector<VariableSpec>& variables);

  // Whether any variable moves by rows, and whether any was declared as a table.
  bool any() const { return any_; }
  bool declares() const { return !groups_.empty(); }
  bool declared(size_t variable) const { return room_.rows[variable].has_value(); }
  // Whether the program receives only the rows read by a batch.
  bool by_rows(size_t variable) const { return declared(variable) && !dense_[variable]; }
  const TableRoom& room() const { return room_; }
  uint64_t width(size_t variable) const { return widths_[variable]; }  // numbers of a row

  // Describes a declared table for people, after the variable's line; "" for other variables.
  std::string Describe(size_t variable) const;

  // INVALID_ARGUMENT names a record with an id outside its table.
  absl::StatusOr<std::shared_ptr<const ProgramRows>> RowsOf(const Batch& batch) const;
  // INVALID_ARGUMENT if `rows` exceed the room.
  absl::Status CheckRoom(const ProgramRows& rows) const;
  // The rows of `batch`; `rows` are those given to GradientProgram::UseRows.
  absl::StatusOr<RowsInUse> InUse(const Batch& batch,
                                  const std::shared_ptr<const TableRows>& rows) const;

  // Writes the program's rows of a table, and returns the end of the written rows.
  float* PutRows(size_t variable, const RowsInUse& use, std::span<const float> values,
                 float* to) const;
  // Takes the variable's gradient from the program's rows at `from`.
  void TakeGradient(size_t variable, const RowsInUse& use, const float* from,
                    std::span<float> to) const;

 private:
  // Tables that read equal inputs and hence number ids alike.
  struct Group {
    std::vector<size_t> inputs;  // index in the data's inputs, ascending
    std::vector<size_t> variables;
    size_t smallest = 0;  // the variable with the fewest rows
    uint64_t rows = 0;    // rows of `smallest`; 0: ids are any 64 bits
    uint64_t shards = 0;  // for growing tables; 0: other tables
    bool dense = false;
  };
  void Add(size_t variable, const DeclaredTable& declared, const TablesSpec::Table& kind,
           const Batch& schema, uint64_t batch, Problems& problems);
  void Number(const Group& group, const Batch& batch, std::vector<uint64_t>& ids,
              ProgramRows& rows) const;

  std::vector<VariableSpec> variables_;
  std::vector<Group> groups_;
  std::vector<bool> dense_;       // indexed by variable
  std::vector<uint64_t> most_;    // different ids of a batch, by variable
  std::vector<uint64_t> widths_;  // indexed by variable
  TableRoom room_;
  bool any_ = false;
};

}  // namespace paracord
