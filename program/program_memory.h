// The memory shared by a program's process (the child) and this process: a batch and values go in,
// gradients and outputs come out. Used by one thread at a time.
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

  // Writes the columns of a batch; ids become their local numbers in `use`. INVALID_ARGUMENT if a
  // column that the child takes as int64 holds a value that is no exact integer of int64.
  absl::Status PutBatch(const Batch& batch, const RowsInUse& use);
  // Returns PutBatch's error without writing, for a batch of any size.
  absl::Status CheckBatch(const Batch& batch, const RowsInUse& use);
  void PutValues(ConstTensors values, const RowsInUse& use);
  // Returns how many rows of a variable declared as a table the child gets.
  uint64_t Rows(size_t variable, const RowsInUse& use) const;

  void TakeGradient(size_t variable, const RowsInUse& use, std::span<float> to) const;
  // Returns the first `numbers` numbers of an output.
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
