// Memory for the rows of a table, numbered from 0. A row never moves. Memory grows by extents, each
// twice as large as the one before. The pages of an extent are taken when its rows are first
// written, and large extents ask for huge pages. One thread at a time adds rows; many threads may
// read and write different rows, also while a row is added.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

class RowMemory {
 public:
  // The first `rows` rows that are added will lie side by side.
  explicit RowMemory(uint64_t row_floats, uint64_t rows = 0);
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  uint64_t row_floats() const { return row_floats_; }
  uint64_t rows() const { return rows_; }
  float* Row(uint32_t row) const {
    const uint64_t q = (uint64_t{row} >> shift_) + 1;
    const auto extent = static_cast<size_t>(std::bit_width(q) - 1);
    const uint64_t first = ((uint64_t{1} << extent) - 1) << shift_;
    return extents_[extent] + (row - first) * row_floats_;
  }
  // Adds a row, not initialised, and returns its number. There must be fewer than 2^32 - 1 rows.
  uint32_t Append();
  // Adds `rows` rows, and returns their memory: one piece after another, in the order of the rows.
  std::vector<std::span<float>> AppendMany(uint64_t rows);
  uint64_t bytes() const { return rows_ * row_floats_ * sizeof(float); }
  // Rows are read in groups of 1 << group_shift() rows; the number of a group's first row is a
  // multiple of that. A group is contiguous in memory, and has at most 64 KiB or a single row.
  uint32_t group_shift() const { return group_shift_; }

 private:
  uint64_t ExtentBytes(size_t extent) const;

  const uint64_t row_floats_;
  const uint32_t group_shift_;
  const uint32_t shift_;  // the first extent has 1 << shift_ rows
  uint64_t rows_ = 0;
  std::array<float*, 33> extents_{};
};

}  // namespace paracord
