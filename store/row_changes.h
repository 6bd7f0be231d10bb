// Tells which rows of a growing table have changed since an image (all rows at one moment, for a
// checkpoint), so that the next checkpoint can have these rows alone. Each row stores the last
// update that touched it; RowChanges counts the changed rows, and has the ids of removed ones. If
// it would have more than 4096 removed ids and more than a 32nd of the rows, it forgets all images,
// and the next checkpoint has all rows. At most two images are known: that of the checkpoint which
// the next one continues, and the newest. One thread at a time, but many threads may call Look.
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
    uint32_t now = 0;                   // the last update before the image
    uint64_t updates = 0;               // the partition's count of updates at the image
    uint64_t changed = 0;               // how many rows, without removed ones
    std::span<const uint64_t> removed;  // ids of removed rows
  };

  // Called when an image of `rows` rows is taken, after the update `now`. `own` is the checkpoint
  // that is made from the image, or nullopt if no later one may continue it. Forgets all earlier
  // images except that of the checkpoint `continued`.
  void Mark(const std::optional<CheckpointName>& own,
            const std::optional<CheckpointName>& continued, uint32_t now, uint64_t updates,
            uint64_t rows);
  // Nullopt: the image is not known, or is forgotten. The result is valid until the next change.
  std::optional<Since> SinceImage(const std::optional<CheckpointName>& image) const;
  void Forget();

  // Called before the update `now`. Then Look(touched) is called for each row to be touched;
  // `touched` is the last update that touched the row. Look counts the row for each image since
  // which the row has not changed. Add takes over the counts of one caller of Look.
  void Begin(uint32_t now);
  struct Seen {
    std::array<uint64_t, kImagesMax> unchanged{};  // how many rows, by image
  };
  void Look(uint32_t touched, Seen& seen) const {
    for (size_t i = 0; i < images_.size(); ++i) {
      if (!IsChanged(i, touched)) ++seen.unchanged[i];
    }
  }
  void Add(const Seen& seen);
  // Called for each created or removed row. `touched` is the last update that touched the removed
  // row, `rows` how many the table has.
  void Created();
  void Removed(uint64_t id, uint32_t touched, uint64_t rows);

  uint64_t bytes() const { return removed_.capacity() * sizeof(uint64_t); }

 private:
  struct Image {
    CheckpointName name;
    uint32_t now = 0;
    uint64_t updates = 0;
    uint64_t changed = 0;
    size_t removed = 0;  // index in removed_ of the first row removed after the image
    uint32_t bound = 0;  // a row has changed if it was touched fewer updates ago than this
  };
  bool IsChanged(size_t image, uint32_t touched) const;

  std::vector<Image> images_;
  std::vector<uint64_t> removed_;
  uint32_t now_ = 0;
};

// Returns how many updates ago, at least, a row was last touched if it has not changed after the
// update `then`. `now` is the present update. Updates count modulo 2^31.
uint32_t ChangedBound(uint32_t then, uint32_t now);

}  // namespace paracord
