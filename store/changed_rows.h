// Tells which rows of a fixed table changed since the image (the copy of a partition that a
// checkpoint is made from), so that the next checkpoint can hold only these rows. Keeps one bit a
// row for each of at most two images: the image of the checkpoint that the next one continues, and
// the newest image, whose checkpoint may not be complete yet. Guarded by the partition's lock, but
// several threads may call Set on behalf of the lock's holder.
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
  // Returns cleared bits, for Mark. Slow: not to be called under a lock.
  Bits NewBits() const { return std::make_unique<std::atomic<uint64_t>[]>(words_); }

  // Called before a row changes.
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
    uint64_t updates = 0;  // the partition's updates at the image
    uint64_t changed = 0;  // rows
  };
  // Puts the bits of the rows that changed since `image` into `bits`. Nullopt: the image is not
  // known (any more).
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image,
                                  std::vector<uint64_t>& bits) const;
  // Called when an image is taken. `own` names the checkpoint that is made from this image, nullopt
  // if no later checkpoint will continue that one. Forgets all earlier images but `continued`.
  // `fresh` comes from NewBits.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint64_t updates, Bits fresh);

  uint64_t bytes() const { return images_.size() * words_ * sizeof(uint64_t); }

 private:
  struct Image {
    CheckpointName name;
    uint64_t updates = 0;
    Bits bits;  // rows changed after this image, before the next one
  };
  size_t Find(const std::optional<CheckpointName>& name) const;  // images_.size(): unknown

  const uint64_t words_;
  std::vector<Image> images_;                // oldest first
  std::atomic<uint64_t>* newest_ = nullptr;  // the bits of the newest image
};

}  // namespace paracord
