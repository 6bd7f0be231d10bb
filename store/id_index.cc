#include "store/id_index.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paracord {
namespace {

constexpr double kLoadMax = 0.85;
constexpr double kGrowth = 1.2;
constexpr double kCapacityMin = 32;

// Entries behind the last home, for runs that begin there.
uint64_t Length(uint64_t capacity) { return capacity + 24 + capacity / 256; }

}  // namespace

bool IdIndex::PutEntry(Shard& shard, uint32_t tag, uint32_t row) {
  Entry* const end = &shard.entries[shard.length - 1];
  Entry* at = &shard.entries[shard.Home(tag)];
  while (at->row != kNone && at->tag <= tag) ++at;
  Entry* gap = at;
  while (gap->row != kNone) ++gap;
  if (gap == end) return false;
  std::move_backward(at, gap, gap + 1);
  *at = {tag, row};
  ++shard.size;
  return true;
}

void IdIndex::Insert(const Place& place, uint32_t row) {
  Shard& shard = shards_[place.shard];
  const auto full = [&] {
    return static_cast<double>(shard.size + 1) > kLoadMax * static_cast<double>(shard.capacity);
  };
  if (shard.capacity == 0 || full()) Grow(shard, place.shard);
  while (!PutEntry(shard, place.tag, row)) Grow(shard, place.shard);
  ++size_;
}

void IdIndex::Erase(const Place& place, uint32_t row) {
  Shard& shard = shards_[place.shard];
  Entry* at = &shard.entries[shard.Home(place.tag)];
  while (at->row != row) ++at;
  // The following entries move back, up to the first entry at its home.
  for (Entry* next = at + 1; next->row != kNone; ++at, ++next) {
    if (shard.Home(next->tag) > static_cast<uint64_t>(at - shard.entries.get())) break;
    *at = *next;
  }
  *at = Entry();
  --shard.size;
  --size_;
}

void IdIndex::Grow(Shard& shard, size_t index) {
  double capacity = static_cast<double>(shard.capacity);
  if (shard.capacity == 0) {
    capacity = kCapacityMin * std::pow(kGrowth, static_cast<double>(index) / kShards) / kGrowth;
  }
  Shard grown;
  do {
    capacity = capacity * kGrowth + 1;
    grown.capacity = static_cast<uint64_t>(capacity);
    grown.length = Length(grown.capacity);
    grown.entries = std::make_unique<Entry[]>(grown.length);
  } while (!Fill(shard, grown));
  shard = std::move(grown);
}

// Entries are in the order of their homes already.
bool IdIndex::Fill(const Shard& from, Shard& to) {
  uint64_t next = 0;
  for (uint64_t i = 0; i < from.length; ++i) {
    const Entry& entry = from.entries[i];
    if (entry.row == kNone) continue;
    const uint64_t at = std::max(next, to.Home(entry.tag));
    if (at + 1 >= to.length) return false;
    to.entries[at] = entry;
    next = at + 1;
  }
  to.size = from.size;
  return true;
}

uint64_t IdIndex::bytes() const {
  uint64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.length * sizeof(Entry);
  return bytes;
}

}  // namespace paracord
