// Finds the rows of a growing table by 64-bit ids. Stores a row's number and 32 bits of the id's
// hash, and asks the caller whether a row is that of the id. Takes 9.5 to 11.5 bytes a row in a
// large table. Entries lie in 256 arrays (shards) with gaps, each sorted by hash (Robin Hood
// hashing without wrap-around): a search looks at a few neighbouring entries, also for a missing
// id. Each array grows by a fifth on its own, so an insertion moves only a small part of all
// entries; arrays begin with different sizes, so that they do not all grow at the same time. Many
// threads may call Find at once.
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

  // The hash depends on `key`, a secret, so that clients cannot choose ids that collide.
  explicit IdIndex(uint64_t key) : key_(key) {}

  // The shard of an id, and 32 bits of its hash (the tag).
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
  // Returns the first row at `place` for which same(row) is true, or kNone.
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
  // Removes a row, which must be there at `place`.
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
    uint64_t capacity = 0;  // entries where a search may begin (homes)
    uint64_t length = 0;    // size of `entries`; the last stays empty
    uint64_t size = 0;
    std::unique_ptr<Entry[]> entries;
  };
  static constexpr size_t kShards = 256;

  // Puts an entry in its place. Returns false if that would fill the last entry, which stays empty.
  static bool PutEntry(Shard& shard, uint32_t tag, uint32_t row);
  static void Grow(Shard& shard, size_t index);
  // Copies all entries of `from` to `to`. Returns false if one does not fit.
  static bool Fill(const Shard& from, Shard& to);

  const uint64_t key_;
  std::array<Shard, kShards> shards_;
  uint64_t size_ = 0;
};

}  // namespace paracord
