// Updates and reads single rows of the blocks that a partition consists of. Chunks that somebody
// else references are copied before they are written, and only those that have a row of the update;
// of chunks that only an image references, the pages alone that change. Nothing walks over the rows
// that are not named. The caller holds the partition's lock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/rows.h"
#include "store/block.h"
#include "store/gradient.h"
#include "store/kept_pages.h"
#include "store/optimizer.h"
#include "store/pinned_bytes.h"

namespace paracord {

// Where rows lie in a block.
struct RowLayout {
  uint64_t begin = 0;         // the id of the first row
  uint64_t rows = 0;          // 0: there are no rows that could be named
  uint64_t elements = 0;      // of a row
  std::vector<uint64_t> one;  // the shape of one row: the variable's with 1 for axis 0
};

// The counts of steps of the rows of a lazy table are float32, which counts so far exactly.
inline constexpr float kStepsMax = 1 << 24;

// Updates the rows `ids` with a gradient that has them in their order. `step` is the number of
// batches applied before. `blocks` are the values, then Optimizer::slots, and, if the optimizer is
// lazy, the counts of the rows' steps. `kept`: an image of these blocks, or null. Returns false if
// a result is not finite.
bool UpdateRows(const Optimizer& optimizer, uint64_t step, const RowLayout& layout,
                std::span<const uint64_t> ids, const Gradient& gradient,
                std::span<Block* const> blocks, PinnedBytes& pinned, KeptPages* kept);

// Copies the rows `ids` to `out` in their order.
void GatherRows(const Block& values, const RowLayout& layout, std::span<const uint64_t> ids,
                std::span<float> out);

}  // namespace paracord
