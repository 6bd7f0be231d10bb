#include "store/before_values.h"

#include <algorithm>
#include <utility>

namespace paracord {

void DenseBefore::Keep(const Block& values, uint64_t updates) {
  Drop();
  kept_ = true;
  values_ = values.chunks();
  updates_ = updates;
}

ChunkRef DenseBefore::Writable(const Block& values, size_t i) {
  const ChunkRef& chunk = values.chunks()[i];
  if (chunk.unshared()) return chunk;
  ChunkRef spare = i < spare_.size() ? std::exchange(spare_[i], {}) : ChunkRef();
  if (spare == ChunkRef() || !spare.unshared()) return ChunkRef(chunk.values().size());
  spare.pulls() = 0;  // it is no longer stale (store/pinned_bytes.h)
  return spare;
}

void DenseBefore::Drop() {
  if (!kept_) return;
  kept_ = false;
  spare_ = std::exchange(values_, {});
}

void RowsBefore::Keep(uint64_t updates) {
  Drop();
  kept_ = true;
  updates_ = updates;
}

void RowsBefore::Drop() {
  kept_ = false;
  now_.reset();
  ids_.clear();
  removed_ids_.clear();
  removed_.clear();
}

void RowsBefore::ReleaseSpare() {
  if (kept_) return;
  // Assigning {} to a vector would keep its memory.
  ids_ = std::vector<uint64_t>();
  had_ = std::vector<uint8_t>();
  values_ = std::vector<float>();
  removed_ids_ = std::vector<uint64_t>();
  removed_ = std::vector<float>();
}

uint64_t RowsBefore::bytes() const {
  return (ids_.capacity() + removed_ids_.capacity()) * sizeof(uint64_t) + had_.capacity() +
         (values_.capacity() + removed_.capacity()) * sizeof(float);
}

void RowsBefore::Touch(std::span<const uint64_t> ids, uint32_t now) {
  now_ = now;
  ids_.assign(ids.begin(), ids.end());
  had_.assign(ids.size(), 0);
  values_.resize(ids.size() * row_elements_);
}

void RowsBefore::Had(size_t i, const float* values) {
  had_[i] = 1;
  std::copy_n(values, row_elements_, &values_[i * row_elements_]);
}

void RowsBefore::Removed(uint64_t id, const float* values) {
  if (std::ranges::binary_search(ids_, id)) return;
  removed_ids_.push_back(id);
  removed_.insert(removed_.end(), values, values + row_elements_);
}

void RowsBefore::PutOver(std::span<const uint64_t> ids, std::span<float> values,
                         const FirstValues& first) const {
  const auto row = [&](size_t i) { return values.subspan(i * row_elements_, row_elements_); };
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = std::ranges::lower_bound(ids_, ids[i]);
    if (found == ids_.end() || *found != ids[i]) continue;
    const auto at = static_cast<size_t>(found - ids_.begin());
    if (had_[at] == 0) {
      first(ids[i], row(i));
    } else {
      std::copy_n(&values_[at * row_elements_], row_elements_, row(i).begin());
    }
  }
  for (size_t at = 0; at < removed_ids_.size(); ++at) {
    const auto found = std::ranges::lower_bound(ids, removed_ids_[at]);
    if (found == ids.end() || *found != removed_ids_[at]) continue;
    std::copy_n(&removed_[at * row_elements_], row_elements_,
                row(static_cast<size_t>(found - ids.begin())).begin());
  }
}

void RowsBefore::PutOverRange(uint64_t first_id, std::span<float> values) const {
  const uint64_t end = first_id + values.size() / row_elements_;
  const auto begin = std::ranges::lower_bound(ids_, first_id);
  for (auto id = begin; id != ids_.end() && *id < end; ++id) {
    const auto at = static_cast<size_t>(id - ids_.begin());
    std::copy_n(&values_[at * row_elements_], row_elements_,
                values.subspan((*id - first_id) * row_elements_).begin());
  }
}

}  // namespace paracord
