// Row numbers of a table as float32, for Ops::Gather and Ops::ScatterAdd. Up to 2^24 rows the
// floats are simply the numbers. For larger tables float32 lacks some numbers: row k is the k-th
// normal float from 0 upwards: 0, then the smallest normal number, and so on. These floats can be
// copied like any other, are finite, are zero for row 0 alone, and need no denormals. Plain
// functions for host and device alike.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/host_device.h"

namespace paracord {

constexpr int64_t kPlainRowsMax = int64_t{1} << 24;
// Up to the largest finite float.
constexpr int64_t kTableRowsMax = 0x7f7fffff - 0x00800000 + 2;

// `row` is in [0, rows).
PARACORD_HD inline float RowToFloat(int64_t row, int64_t rows) {
  if (rows <= kPlainRowsMax || row == 0) return static_cast<float>(row);
  const auto bits = static_cast<uint32_t>(row - 1 + 0x00800000);
  float id;
  memcpy(&id, &bits, sizeof id);
  return id;
}

// -1: outside of the table.
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
