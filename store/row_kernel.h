// Updates of rows whose slots lie behind their values, each row somewhere in memory: many rows at a
// time, because a call for each row takes as long as its arithmetic. Free functions; any thread,
// each with rows of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "store/optimizer.h"

namespace paracord {

// Rows that are updated together.
struct RowList {
  static constexpr size_t kMost = 64;

  size_t size = 0;
  std::array<float*, kMost> values;  // of each row, behind which its slots follow
  std::array<const float*, kMost> gradients;
  // The scalars of each row, or only the first are set, and count for all rows. All rows may have
  // the same only where ZeroGradientChangesNothing is true of the optimizer.
  bool own_scalars = false;
  std::array<UpdateScalars, kMost> scalars;
};

// Updates the rows. A slot with one number a row gets the mean of the squares of the row's gradient
// first. Returns false if a result is not finite (it is stored anyway).
bool UpdateRows(const Optimizer& optimizer, uint64_t row_elements, const RowList& list);

}  // namespace paracord
