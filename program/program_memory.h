// The memory that the process of a job's program (the child) shares with this process, which writes
// batches and values, and reads gradients and outputs. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "program/program_packets.h"
#include "program/program_tables.h"

namespace paracord {

class ProgramMemory {
 public:
  ProgramMemory() = default;
  // `layout` and `tables` outlive this object.
  ProgramMemory(const ProgramLayout* layout, const ProgramTables* tables)
      : layout_(layout), tables_(tables) {}
  void Map(std::span<char> memory) { memory_ = memory; }

  // Writes the columns of a batch, and in place of each id of a table the id's local number
  // (program_tables.h) in `use`. INVALID_ARGUMENT if a column that the child takes as int64 has a
  // value that is no integer, or of which the exact integer is unknown or beyond int64.
  absl::Status PutBatch(const Batch& batch, const RowsInUse& use);
  // Returns the error that PutBatch would return, but writes nothing. For a batch of any size.
  absl::Status CheckBatch(const Batch& batch, const RowsInUse& use);
  void PutValues(ConstTensors values, const RowsInUse& use);
  // Returns how many rows the child gets of a variable that it declares as a table.
  uint64_t Rows(size_t variable, const RowsInUse& use) const;

  void TakeGradient(size_t variable, const RowsInUse& use, std::span<float> to) const;
  // Returns the first `numbers` elements of an output.
  std::span<const float> Output(size_t output, uint64_t numbers) const {
    return {At(layout_->outputs[output]), numbers};
  }

 private:
  float* At(uint64_t offset) const { return reinterpret_cast<float*>(memory_.data() + offset); }
  struct Kind {
    const char* what;
    const std::vector<Column>* columns;
    const std::vector<PlacedColumn>* places;
  };
  std::array<Kind, 3> Kinds(const Batch& batch) const;
  absl::Status PutColumn(const Batch& batch, const char* what, const Column& column,
                         const PlacedColumn& place);
  void PutNumbers(const std::vector<int64_t>& numbers, const Column& column, uint64_t offset);

  const ProgramLayout* layout_ = nullptr;
  const ProgramTables* tables_ = nullptr;
  std::span<char> memory_;
  std::vector<int64_t> whole_;  // scratch: a column as integers
};

}  // namespace paracord
