// Tells which rows of a fixed table have changed since an image (all rows at one moment, for a
// checkpoint), so that the next checkpoint can have these rows alone. Has one bit a row for each of
// at most two images: the image of the checkpoint that the next one continues, and the newest
// image, whose checkpoint may not be complete yet. Guarded by the partition's lock; while a push
// holds the lock, all threads that work on the push may call Set.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "storage/checkpoint.h"

namespace paracord {

class ChangedRows {
 public:
  explicit ChangedRows(uint64_t rows) : words_((rows + 63) / 64) {}

  using Bits = std::unique_ptr<std::atomic<uint64_t>[]>;
  // Returns bits for Mark, one for each row, all 0. Slow, so not to be called under a lock.
  Bits NewBits() const { return std::make_unique<std::atomic<uint64_t>[]>(words_); }

  // Called before a row changes. `row` counts from the partition's first row.
  void Set(uint64_t row) {
    if (newest_ == nullptr) return;
    std::atomic<uint64_t>& word = newest_[row / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) {
      word.fetch_or(bit, std::memory_order_relaxed);
    }
  }

  // What changed since an image.
  struct Since {
    uint64_t updates = 0;  // the partition's count of updates at the image
    uint64_t changed = 0;  // how many rows
  };
  // Returns what changed since the image of the checkpoint `image`, and sets `bits`: a bit for each
  // row, 1 if the row changed. Returns nullopt if the image is not known, or is forgotten.
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image,
                                  std::vector<uint64_t>& bits) const;
  // Called when an image is taken. `own` is the checkpoint that is made from the image, or nullopt
  // if no later checkpoint may continue it. Forgets all earlier images except that of the
  // checkpoint `continued`. `updates` is the partition's count of updates; `fresh` comes from
  // NewBits.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint64_t updates, Bits fresh);

  uint64_t bytes() const { return images_.size() * words_ * sizeof(uint64_t); }

 private:
  struct Image {
    CheckpointName name;
    uint64_t updates = 0;
    Bits bits;  // rows that changed after this image and before the next one
  };
  // Returns an index in images_, or its size if the image is not known.
  size_t Find(const std::optional<CheckpointName>& name) const;

  const uint64_t words_;
  std::vector<Image> images_;                // from the oldest to the newest
  std::atomic<uint64_t>* newest_ = nullptr;  // the bits of the newest image
};

}  // namespace paracord
