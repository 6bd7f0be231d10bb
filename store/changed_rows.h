// Tells which rows of a fixed table changed since an image of it that a checkpoint has, so that the
// next checkpoint can continue that one: a bit a row for each image that is known. At most two are,
// the one that is continued and the newest one, which may become a checkpoint; without either no
// bit is kept. The partition's lock guards it, but that Set may be called by several threads that
// work for the lock's holder.
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
  // Returns bits of no row, for Mark. Slow: not to be called under a lock.
  Bits NewBits() const { return std::make_unique<std::atomic<uint64_t>[]>(words_); }

  // A row is about to change.
  void Set(uint64_t row) {
    if (newest_ == nullptr) return;
    std::atomic<uint64_t>& word = newest_[row / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) {
      word.fetch_or(bit, std::memory_order_relaxed);
    }
  }

  // The rows that changed since an image.
  struct Since {
    uint64_t updates = 0;  // of the partition, in the image
    uint64_t changed = 0;  // rows
  };
  // Puts their bits into `bits`. Nullopt: the image is not known (any more).
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image,
                                  std::vector<uint64_t>& bits) const;
  // An image is taken now. All but `continued` are forgotten; `own` is the checkpoint that it is
  // taken for, or nullopt if none will continue it, and `fresh` what NewBits returned.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint64_t updates, Bits fresh);

  uint64_t bytes() const { return images_.size() * words_ * sizeof(uint64_t); }

 private:
  struct Image {
    CheckpointName name;
    uint64_t updates = 0;
    Bits
        bits;  // of the rows that changed after this image, and before the next one if there is one
  };
  size_t Find(const std::optional<CheckpointName>& name) const;  // images_.size(): it is not there

  const uint64_t words_;
  std::vector<Image> images_;                // the oldest first
  std::atomic<uint64_t>* newest_ = nullptr;  // the bits of the last one
};

}  // namespace paracord
