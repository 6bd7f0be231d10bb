// Row numbers of a table as float32, for Ops::Gather and Ops::ScatterAdd, on host and device. In a
// table of up to 2^24 rows the floats are simply the numbers. In a larger table, where float32
// lacks some numbers, row 0 is 0, and row k is the k-th smallest positive normal float. All floats
// of rows are finite and not denormal, and only that of row 0 is zero.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/host_device.h"

namespace paracord {

constexpr int64_t kPlainRowsMax = int64_t{1} << 24;
// The most rows of a table: the last row is then the largest finite float.
constexpr int64_t kTableRowsMax = 0x7f7fffff - 0x00800000 + 2;

// `row` is in [0, rows).
PARACORD_HD inline float RowToFloat(int64_t row, int64_t rows) {
  if (rows <= kPlainRowsMax || row == 0) return static_cast<float>(row);
  const auto bits = static_cast<uint32_t>(row - 1 + 0x00800000);
  float id;
  memcpy(&id, &bits, sizeof id);
  return id;
}

// Returns the row, or -1 if `id` is outside of a table of `rows` rows.
PARACORD_HD inline int64_t RowOfFloat(float id, int64_t rows) {
  if (rows <= kPlainRowsMax) {
    return id >= 0 && id < static_cast<float>(rows) ? static_cast<int64_t>(id) : -1;
  }
  uint32_t bits;
  memcpy(&bits, &id, sizeof bits);
  if (bits == 0 || bits == 0x80000000u) return 0;
  const int64_t row = static_cast<int64_t>(bits) - 0x00800000 + 1;
  return row >= 1 && row < rows ? row : -1;
}

}  // namespace paracord
