// Finds the rows of a growing table by 64-bit ids. It keeps a row's number and 32 bits of its id's
// hash, and asks its user whether a row is the right one; so it takes 9.5 to 11.5 bytes a row.
// Entries lie in 256 arrays with gaps, each sorted by hash, which is Robin Hood hashing without
// moving around the end: a search looks at a few neighbouring entries, also for what is not there.
// Each array grows by a fifth on its own, and no two at the same size, so that no insertion moves
// more than a small part of all entries. Finding is const and may be done by many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "common/mix.h"
#include "common/prefetch.h"

namespace paracord {

class IdIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // `key` keeps others from choosing ids that collide.
  explicit IdIndex(uint64_t key) : key_(key) {}

  // Where an id belongs.
  struct Place {
    uint32_t shard = 0;
    uint32_t tag = 0;
  };
  Place PlaceOf(uint64_t id) const {
    const uint64_t hash = Mix64(id ^ key_);
    return {static_cast<uint32_t>(hash >> 56), static_cast<uint32_t>(hash)};
  }
  [[gnu::always_inline]] void Prefetch(const Place& place) const {
    const Shard& shard = shards_[place.shard];
    if (shard.capacity != 0) PrefetchToRead(&shard.entries[shard.Home(place.tag)]);
  }
  // The first row at this place for which same(row) is true, or kNone.
  template <class Same>
  uint32_t Find(const Place& place, const Same& same) const {
    const Shard& shard = shards_[place.shard];
    if (shard.capacity == 0) return kNone;
    for (const Entry* at = &shard.entries[shard.Home(place.tag)];; ++at) {
      if (at->row == kNone || at->tag > place.tag) return kNone;
      if (at->tag == place.tag && same(at->row)) return at->row;
    }
  }
  void Insert(const Place& place, uint32_t row);
  // The row must be there.
  void Erase(const Place& place, uint32_t row);

  uint64_t size() const { return size_; }
  uint64_t bytes() const;

 private:
  struct Entry {
    uint32_t tag = 0;
    uint32_t row = kNone;
  };
  struct Shard {
    uint64_t Home(uint32_t tag) const { return tag * capacity >> 32; }
    uint64_t capacity = 0;  // homes
    uint64_t length = 0;    // entries, the last of which stays empty
    uint64_t size = 0;
    std::unique_ptr<Entry[]> entries;
  };
  static constexpr size_t kShards = 256;

  // Returns false if the run of entries reaches the end.
  static bool PutEntry(Shard& shard, uint32_t tag, uint32_t row);
  static void Grow(Shard& shard, size_t index);
  // Returns false if an entry does not fit.
  static bool Fill(const Shard& from, Shard& to);

  const uint64_t key_;
  std::array<Shard, kShards> shards_;
  uint64_t size_ = 0;
};

}  // namespace paracord
