// Updates rows whose slots follow their values, each row anywhere in memory: many rows a call,
// because a call takes as long as the arithmetic of a row. Free functions; any thread, each with
// its own rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "store/optimizer.h"

namespace paracord {

// Rows to update in one call.
struct RowList {
  static constexpr size_t kMost = 64;

  size_t size = 0;
  std::array<float*, kMost> values;  // each row's values, followed by its slots
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
