// Updates rows whose slots follow their values, each row anywhere in memory: many rows in one call,
// because a call alone takes as long as the arithmetic of a row. Functions without state; any
// thread, each with its own rows.
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
  // Whether each row has its own of `scalars`. If not, `scalars[0]` is that of all rows, which is
  // allowed only where ZeroGradientChangesNothing is true of the optimizer.
  bool own_scalars = false;
  std::array<UpdateScalars, kMost> scalars;
};

// Updates the rows. First, a slot with one number for each row (Optimizer::row_wise) takes in the
// mean of the squares of the row's gradient. Returns false if a result is not finite (it is stored
// anyway).
bool UpdateRows(const Optimizer& optimizer, uint64_t row_elements, const RowList& list);

}  // namespace paracord
