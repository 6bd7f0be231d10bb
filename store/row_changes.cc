#include "store/row_changes.h"

#include <algorithm>

#include "store/row_records.h"

namespace paracord {
namespace {

// The number of removed ids that are kept is a share of the rows.
constexpr uint64_t kRemovedShare = 32;
constexpr uint64_t kRemovedMin = 4096;

bool IsImage(const CheckpointName& name, const std::optional<CheckpointName>& other) {
  return other.has_value() && name.generation == other->generation && name.round == other->round;
}

}  // namespace

// The last batch is 0 both before the first update and after an update by batch 0. Rows of batch 0
// count as changed, which costs at most writing them twice.
uint32_t ChangedBound(uint32_t then, uint32_t now) {
  return ((now - then) & kTouchedMask) + (then == 0 ? 1 : 0);
}

void RowChanges::Mark(const std::optional<CheckpointName>& own,
                      const std::optional<CheckpointName>& continued, uint32_t now,
                      uint64_t updates, uint64_t rows) {
  std::erase_if(images_, [&](const Image& image) { return !IsImage(image.name, continued); });
  size_t unused = removed_.size();
  for (const Image& image : images_) unused = std::min(unused, image.removed);
  removed_.erase(removed_.begin(), removed_.begin() + static_cast<int64_t>(unused));
  if (removed_.empty()) removed_.shrink_to_fit();
  for (Image& image : images_) image.removed -= unused;
  if (!own.has_value()) return;
  images_.push_back({.name = *own,
                     .now = now,
                     .updates = updates,
                     .changed = now == 0 ? rows : 0,
                     .removed = removed_.size(),
                     .bound = ChangedBound(now, now)});
}

std::optional<RowChanges::Since> RowChanges::SinceImage(
    const std::optional<CheckpointName>& image) const {
  for (const Image& known : images_) {
    if (!IsImage(known.name, image)) continue;
    return Since{.now = known.now,
                 .updates = known.updates,
                 .changed = known.changed,
                 .removed = std::span(removed_).subspan(known.removed)};
  }
  return std::nullopt;
}

void RowChanges::Forget() {
  images_.clear();
  removed_.clear();
  removed_.shrink_to_fit();
}

void RowChanges::Begin(uint32_t now) {
  now_ = now;
  for (Image& image : images_) image.bound = ChangedBound(image.now, now);
}

bool RowChanges::IsChanged(size_t image, uint32_t touched) const {
  return ((now_ - touched) & kTouchedMask) < images_[image].bound;
}

void RowChanges::Add(const Seen& seen) {
  for (size_t i = 0; i < images_.size(); ++i) images_[i].changed += seen.unchanged[i];
}

void RowChanges::Created() {
  for (Image& image : images_) ++image.changed;
}

void RowChanges::Removed(uint64_t id, uint32_t touched, uint64_t rows) {
  if (images_.empty()) return;
  for (size_t i = 0; i < images_.size(); ++i) {
    if (IsChanged(i, touched)) --images_[i].changed;
  }
  if (removed_.size() >= std::max(kRemovedMin, rows / kRemovedShare)) return Forget();
  removed_.push_back(id);
}

}  // namespace paracord
