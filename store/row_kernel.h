// Updates rows, each of which may be anywhere in memory, with its slots behind its values. Many
// rows are updated in one call, because a call alone takes as long as the arithmetic of a row. No
// function here has state; any thread may call, for rows of its own.
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
  // Whether each row has its own of `scalars`. If not, scalars[0] is for all rows, which is allowed
  // only if ZeroGradientChangesNothing is true of the optimizer.
  bool own_scalars = false;
  std::array<UpdateScalars, kMost> scalars;
};

// Updates the rows. Before, a slot with one number for each row (Optimizer::row_wise) takes in the
// mean of the squares of the row's gradient. Returns false if a result is not finite (it is stored
// anyway).
bool UpdateRows(const Optimizer& optimizer, uint64_t row_elements, const RowList& list);

}  // namespace paracord
