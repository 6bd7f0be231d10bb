#include "store/changed_rows.h"

#include <bit>
#include <utility>

namespace paracord {

size_t ChangedRows::Find(const std::optional<CheckpointName>& name) const {
  size_t i = 0;
  while (i < images_.size() && !(name.has_value() && images_[i].name.round == name->round &&
                                 images_[i].name.generation == name->generation)) {
    ++i;
  }
  return i;
}

std::optional<ChangedRows::Since> ChangedRows::SinceImage(
    const std::optional<CheckpointName>& image, std::vector<uint64_t>& bits) const {
  const size_t first = Find(image);
  if (first == images_.size()) return std::nullopt;
  Since since{.updates = images_[first].updates};
  bits.resize(words_);
  for (uint64_t word = 0; word < words_; ++word) {
    bits[word] = 0;
    for (size_t i = first; i < images_.size(); ++i) {
      bits[word] |= images_[i].bits[word].load(std::memory_order_relaxed);
    }
    since.changed += static_cast<uint64_t>(std::popcount(bits[word]));
  }
  return since;
}

void ChangedRows::Mark(const std::optional<CheckpointName>& own,
                       const std::optional<CheckpointName>& continued, uint64_t updates,
                       Bits fresh) {
  std::vector<Image> kept;
  for (size_t i = Find(continued); i < images_.size(); ++i) {
    if (kept.empty()) {
      kept.push_back(std::move(images_[i]));
      continue;
    }
    for (uint64_t word = 0; word < words_; ++word) {
      kept[0].bits[word].fetch_or(images_[i].bits[word].load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
    }
  }
  images_ = std::move(kept);
  if (own.has_value()) images_.push_back({*own, updates, std::move(fresh)});
  newest_ = images_.empty() ? nullptr : images_.back().bits.get();
}

}  // namespace paracord
