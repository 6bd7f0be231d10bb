// Tells which rows of a growing table changed since the image in a checkpoint: the next checkpoint
// can then hold only these rows. Each row stores the batch that touched it last; beside that,
// RowChanges keeps counts and the ids of removed rows, up to a share of all rows. Above that,
// everything is forgotten, and the next checkpoint has all rows. At most two images are known: the
// continued one and the newest, which may become a checkpoint. One thread at a time, but many
// threads may call Look.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/checkpoint.h"

namespace paracord {

class RowChanges {
 public:
  static constexpr size_t kImagesMax = 2;

  // The rows that changed since an image.
  struct Since {
    uint32_t now = 0;      // the image's last batch
    uint64_t updates = 0;  // the partition's updates at the image
    uint64_t changed = 0;  // rows
    std::span<const uint64_t> removed;
  };

  // Called when an image is taken, after the update by batch `now`. Forgets all images but
  // `continued`; `own` is the checkpoint to be made from the image, nullopt if no checkpoint will
  // continue it.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint32_t now, uint64_t updates,
            uint64_t rows);
  // Nullopt: the image is not known (any more). Valid until something changes.
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image) const;
  void Forget();

  // Called before an update by batch `now`. Look(touched) notes which images have a row unchanged,
  // and Add sums the notes up.
  void Begin(uint32_t now);
  struct Seen {
    std::array<uint64_t, kImagesMax> unchanged{};  // rows, by image
  };
  void Look(uint32_t touched, Seen& seen) const {
    for (size_t i = 0; i < images_.size(); ++i) {
      if (!IsChanged(i, touched)) ++seen.unchanged[i];
    }
  }
  void Add(const Seen& seen);
  void Created();
  // `rows` is how many rows the table has.
  void Removed(uint64_t id, uint32_t touched, uint64_t rows);

  uint64_t bytes() const { return removed_.capacity() * sizeof(uint64_t); }

 private:
  struct Image {
    CheckpointName name;
    uint32_t now = 0;
    uint64_t updates = 0;
    uint64_t changed = 0;
    size_t removed = 0;  // index of the first row removed since
    uint32_t bound = 0;  // rows that were touched fewer batches ago have changed
  };
  bool IsChanged(size_t image, uint32_t touched) const;

  std::vector<Image> images_;
  std::vector<uint64_t> removed_;
  uint32_t now_ = 0;
};

// How many batches ago rows must have been touched at least to be as they were when the last
// batch was `then`. Batches count modulo 2^31.
uint32_t ChangedBound(uint32_t then, uint32_t now);

}  // namespace paracord
