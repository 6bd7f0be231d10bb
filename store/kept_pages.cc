#include "store/kept_pages.h"

#include <algorithm>
#include <span>
#include <utility>

namespace paracord {

KeptPages::KeptPages(std::vector<std::vector<ChunkRef>> blocks) {
  for (std::vector<ChunkRef>& chunks : blocks) {
    std::vector<Kept>& block = blocks_.emplace_back();
    for (ChunkRef& chunk : chunks) block.push_back({.chunk = std::move(chunk)});
  }
}

void KeptPages::Keep(size_t block, size_t index, uint64_t first, uint64_t count) {
  Kept& kept = blocks_[block][index];
  const std::span<const float> values = kept.chunk.values();
  for (uint64_t page = first / kPageElements; page * kPageElements < first + count; ++page) {
    if (kept.is_kept[page]) continue;
    kept.is_kept[page] = true;
    kept.pages.push_back(static_cast<uint16_t>(page));
    const std::span<const float> rest = values.subspan(page * kPageElements);
    const uint64_t there = std::min<uint64_t>(rest.size(), kPageElements);
    kept.values.insert(kept.values.end(), rest.begin(), rest.begin() + static_cast<long>(there));
    kept.values.resize(kept.pages.size() * kPageElements);
  }
}

void KeptPages::Take(size_t block, size_t index, std::vector<float>& to) {
  const Kept kept = std::exchange(blocks_[block][index], {});
  const std::span<const float> now = kept.chunk.values();
  to.assign(now.begin(), now.end());
  for (size_t i = 0; i < kept.pages.size(); ++i) {
    const uint64_t first = kept.pages[i] * kPageElements;
    const uint64_t count = std::min<uint64_t>(kPageElements, to.size() - first);
    std::copy_n(kept.values.data() + i * kPageElements, count, to.data() + first);
  }
}

uint64_t KeptPages::kept_bytes() const {
  uint64_t bytes = 0;
  for (const std::vector<Kept>& block : blocks_) {
    for (const Kept& kept : block) bytes += kept.values.size() * sizeof(float);
  }
  return bytes;
}

}  // namespace paracord
