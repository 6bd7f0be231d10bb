#include "store/row_update.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <utility>

#include "common/parallel.h"
#include "common/prefetch.h"
#include "store/lazy_scalars.h"
#include "store/norm_constraint.h"

namespace paracord {
namespace {

// Elements that a thread takes at a time, at least.
constexpr uint64_t kPartElementsMin = 4 * kFloatsAtOnce;
// Memory is asked for this many rows ahead, and at most this much of a row.
constexpr size_t kAhead = 16;
constexpr size_t kCacheLineFloats = 64 / sizeof(float);
constexpr size_t kPrefetchFloatsMax = 8 * kCacheLineFloats;

// The rows that a thread takes at a time. A gradient is read from multiples of kFloatsAtOnce on.
uint64_t RowsOfPart(uint64_t row_elements) {
  const uint64_t least = kFloatsAtOnce / std::gcd(row_elements, uint64_t{kFloatsAtOnce});
  const uint64_t times = (kPartElementsMin + least * row_elements - 1) / (least * row_elements);
  return least * times;
}

// Elements of a chunk that change.
struct Changing {
  uint64_t first = 0;
  uint64_t count = 0;
};

// A chunk that has some of the rows and that somebody else references.
struct SharedChunk {
  size_t index = 0;
  std::vector<Changing> changing{};
};

std::vector<SharedChunk> FindShared(const Block& block, const RowLayout& layout,
                                    std::span<const uint64_t> ids, uint64_t row_elements) {
  std::vector<SharedChunk> shared;
  for (const uint64_t id : ids) {
    uint64_t at = (id - layout.begin) * row_elements;
    for (const uint64_t end = at + row_elements; at < end;) {
      const size_t index = at / kChunkElements;
      const uint64_t count = std::min(end, (index + 1) * kChunkElements) - at;
      if (!block.chunks()[index].unshared()) {
        if (shared.empty() || shared.back().index != index) shared.push_back({.index = index});
        shared.back().changing.push_back({at % kChunkElements, count});
      }
      at += count;
    }
  }
  return shared;
}

// Makes sure that the rows may be written where they are: what an image needs is kept, and other
// chunks that somebody references are replaced by copies.
void Unshare(std::span<Block* const> blocks, size_t b, const RowLayout& layout,
             std::span<const uint64_t> ids, uint64_t row_elements, PinnedBytes& pinned,
             KeptPages* kept) {
  Block& block = *blocks[b];
  const std::vector<SharedChunk> shared = FindShared(block, layout, ids, row_elements);
  ParallelFor(shared.size(), [&](size_t i) {
    const auto& [index, changing] = shared[i];
    const ChunkRef& old = block.chunks()[index];
    if (kept != nullptr && kept->Allows(b, index, old)) {
      for (const auto& [first, count] : changing) kept->Keep(b, index, first, count);
      return;
    }
    ChunkRef fresh(old.values().size());
    std::ranges::copy(old.values(), fresh.mutable_values().begin());
    pinned.Replaced(old);
    block.Replace(index, std::move(fresh));
  });
}

// Updates the rows of one part after another. Several threads may do so at once, each with its own.
class RowUpdater {
 public:
  RowUpdater(const Optimizer& optimizer, uint64_t step, const RowLayout& layout,
             std::span<const uint64_t> ids, const Gradient& gradient,
             std::span<Block* const> blocks)
      : optimizer_(optimizer),
        layout_(layout),
        ids_(ids),
        gradient_(gradient),
        blocks_(blocks.first(1 + optimizer.slots.size())),
        steps_(optimizer.lazy ? blocks.back() : nullptr),
        scalars_(ScalarsAt(optimizer, step)),
        lazy_scalars_(optimizer, step) {}

  // Returns false if a result is not finite.
  bool Part(uint64_t first, uint64_t count) {
    GradientAt at(gradient_, first * layout_.elements, count * layout_.elements);
    bool finite = true;
    for (uint64_t i = first; i < first + count;) {
      if (i + kAhead < ids_.size()) Prefetch(ids_[i + kAhead]);
      uint64_t run = 1;
      if (steps_ == nullptr) {
        while (i + run < first + count && ids_[i + run] == ids_[i] + run) ++run;
        finite = Elements(ids_[i], run, scalars_, at) && finite;
      } else {
        finite = LazyRow(ids_[i], at) && finite;
      }
      i += run;
    }
    return finite;
  }

 private:
  // The gradient of a part, in order.
  struct GradientAt {
    GradientAt(const Gradient& gradient, uint64_t first, uint64_t count)
        : reader(gradient, first, count), left(count) {}
    // At most `most` elements, and at least one.
    std::span<const float> Take(uint64_t most) {
      if (rest.empty()) {
        rest = reader.Next(std::span(buffer).first(std::min<uint64_t>(kFloatsAtOnce, left)));
        left -= rest.size();
      }
      const std::span<const float> taken = rest.first(std::min<uint64_t>(most, rest.size()));
      rest = rest.subspan(taken.size());
      return taken;
    }
    Gradient::Reader reader;
    uint64_t left;
    std::span<const float> rest;
    alignas(64) std::array<float, kFloatsAtOnce> buffer;
  };

  static float* At(const Block& block, uint64_t element) {
    return block.chunks()[element / kChunkElements].mutable_values().data() +
           element % kChunkElements;
  }

  [[gnu::always_inline]] void Prefetch(uint64_t id) const {
    const uint64_t first = (id - layout_.begin) * layout_.elements;
    const uint64_t in_chunk = kChunkElements - first % kChunkElements;
    const uint64_t count = std::min({layout_.elements, in_chunk, uint64_t{kPrefetchFloatsMax}});
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (b > 0 && optimizer_.slots[b - 1].of_rows) continue;
      const float* const at = At(*blocks_[b], first);
      for (uint64_t i = 0; i < count; i += kCacheLineFloats) PrefetchToWrite(at + i);
    }
  }

  // Updates `rows` rows that follow one another.
  bool Elements(uint64_t id, uint64_t rows, const UpdateScalars& scalars, GradientAt& gradient) {
    uint64_t at = (id - layout_.begin) * layout_.elements;
    bool finite = true;
    for (const uint64_t end = at + rows * layout_.elements; at < end;) {
      const uint64_t most = std::min(end - at, kChunkElements - at % kChunkElements);
      UpdateArrays arrays{.gradient = gradient.Take(most)};
      arrays.value_in = arrays.value_out = At(*blocks_[0], at);
      for (size_t s = 0; s + 1 < blocks_.size(); ++s) {
        arrays.slots_in[s] = arrays.slots_out[s] = At(*blocks_[s + 1], at);
      }
      finite = UpdateElements(optimizer_, scalars, arrays) && finite;
      at += arrays.gradient.size();
    }
    return finite;
  }

  // Updates a row some of whose slots have one number for all of it.
  bool RowWise(uint64_t id, const UpdateScalars& scalars, GradientAt& gradient) {
    row_.clear();
    while (row_.size() < layout_.elements) {
      const std::span<const float> more = gradient.Take(layout_.elements - row_.size());
      row_.insert(row_.end(), more.begin(), more.end());
    }
    std::array<float*, kSlotsMax> numbers{};
    for (size_t s = 0; s < optimizer_.slots.size(); ++s) {
      if (optimizer_.slots[s].of_rows) numbers[s] = At(*blocks_[s + 1], id - layout_.begin);
    }
    bool finite = EnterRow(optimizer_, scalars, row_, numbers);
    uint64_t at = (id - layout_.begin) * layout_.elements;
    for (std::span<const float> left = row_; !left.empty();) {
      const uint64_t most = std::min<uint64_t>(left.size(), kChunkElements - at % kChunkElements);
      UpdateArrays arrays{.gradient = left.first(most)};
      arrays.value_in = arrays.value_out = At(*blocks_[0], at);
      for (size_t s = 0; s < optimizer_.slots.size(); ++s) {
        float* const slot = numbers[s] != nullptr ? numbers[s] : At(*blocks_[s + 1], at);
        arrays.slots_in[s] = arrays.slots_out[s] = slot;
      }
      finite = UpdateElements(optimizer_, scalars, arrays) && finite;
      left = left.subspan(most);
      at += most;
    }
    return finite;
  }

  bool LazyRow(uint64_t id, GradientAt& gradient) {
    float& steps = *At(*steps_, id - layout_.begin);
    const UpdateScalars& scalars = lazy_scalars_.At(static_cast<uint64_t>(steps));
    const bool finite =
        optimizer_.row_wise ? RowWise(id, scalars, gradient) : Elements(id, 1, scalars, gradient);
    if (steps < kStepsMax) ++steps;
    if (optimizer_.norm.has_value()) Constrain(id);
    return finite;
  }

  void Constrain(uint64_t id) const {
    std::vector<std::span<float>> row;
    uint64_t at = (id - layout_.begin) * layout_.elements;
    for (const uint64_t end = at + layout_.elements; at < end; at += row.back().size()) {
      const uint64_t count = std::min(end - at, kChunkElements - at % kChunkElements);
      row.emplace_back(At(*blocks_[0], at), count);
    }
    ScaleToNorm(*optimizer_.norm, layout_.one, row);
  }

  const Optimizer& optimizer_;
  const RowLayout& layout_;
  const std::span<const uint64_t> ids_;
  const Gradient& gradient_;
  const std::span<Block* const> blocks_;
  Block* const steps_;  // null: not lazy
  const UpdateScalars scalars_;
  LazyScalars lazy_scalars_;
  std::vector<float> row_;  // the gradient of one
};

}  // namespace

bool UpdateRows(const Optimizer& optimizer, uint64_t step, const RowLayout& layout,
                std::span<const uint64_t> ids, const Gradient& gradient,
                std::span<Block* const> blocks, PinnedBytes& pinned, KeptPages* kept) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool of_rows = b > optimizer.slots.size() || (b > 0 && optimizer.slots[b - 1].of_rows);
    Unshare(blocks, b, layout, ids, of_rows ? 1 : layout.elements, pinned, kept);
  }
  const uint64_t rows = RowsOfPart(layout.elements);
  std::atomic<bool> finite = true;
  ParallelFor((ids.size() + rows - 1) / rows, [&](size_t part) {
    RowUpdater updater(optimizer, step, layout, ids, gradient, blocks);
    const uint64_t first = part * rows;
    if (!updater.Part(first, std::min<uint64_t>(rows, ids.size() - first))) finite = false;
  });
  return finite;
}

void GatherRows(const Block& values, const RowLayout& layout, std::span<const uint64_t> ids,
                std::span<float> out) {
  float* to = out.data();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = [&](uint64_t element) {
      return values.chunks()[element / kChunkElements].values().subspan(element % kChunkElements);
    };
    if (i + kAhead < ids.size()) {
      PrefetchToRead(at((ids[i + kAhead] - layout.begin) * layout.elements).data());
    }
    uint64_t element = (ids[i] - layout.begin) * layout.elements;
    for (const uint64_t end = element + layout.elements; element < end;) {
      const std::span<const float> rest = at(element);
      const uint64_t count = std::min<uint64_t>(end - element, rest.size());
      std::copy_n(rest.data(), count, to);
      to += count;
      element += count;
    }
  }
}

}  // namespace paracord
