// Tells which rows of a growing table changed since an image of it that a checkpoint has, so that
// the next checkpoint can continue that one. A row itself says which batch touched it last; beside
// that only counts are kept, and the ids of rows that were removed, as many as a share of the rows:
// if there are more, everything is forgotten, and the next checkpoint has all rows. At most two
// images are known, the one that is continued and the newest one, which may become a checkpoint.
// One thread at a time, but that Look may be called by many.
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
    uint32_t now = 0;      // the last batch that the image has
    uint64_t updates = 0;  // of the partition, in the image
    uint64_t changed = 0;  // rows
    std::span<const uint64_t> removed;
  };

  // An image is taken now, of a table whose last update was by batch `now`. All but `continued` are
  // forgotten; `own` is the checkpoint that it is taken for, or nullopt if none will continue it.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint32_t now, uint64_t updates,
            uint64_t rows);
  // Nullopt: the image is not known (any more). Valid until something changes.
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image) const;
  void Forget();

  // An update by batch `now` follows. Looking at a row that it touches says which images have it as
  // it was, and Add counts what was seen.
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
    size_t removed = 0;  // where those begin that were removed since
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
