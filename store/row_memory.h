// Memory for the rows of a table, numbered from 0. A row never moves; memory grows by extents of
// doubling size, touched row by row, large ones in huge pages. One thread at a time adds rows; many
// threads may read and write different rows, and existing rows stay readable meanwhile.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace paracord {

class RowMemory {
 public:
  // `rows` is how many there will be at least; so many lie side by side.
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
  // Adds a row of uninitialised memory. There must be fewer than 2^32 - 1 rows.
  uint32_t Append();
  // Adds `rows` rows, and returns their memory in order.
  std::vector<std::span<float>> AppendMany(uint64_t rows);
  uint64_t bytes() const { return rows_ * row_floats_ * sizeof(float); }
  // A group is 1 << group_shift() rows from a multiple of that number on, contiguous in memory: at
  // most 64 KiB, or a single larger row.
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
