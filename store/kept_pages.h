// Keeps the tensors of a partition as they are at one moment while updates of single rows go on in
// place: a page of 256 bytes is copied before the first of its elements changes. An update of
// everything replaces chunks, and leaves those alone that are referenced here. The partition's lock
// guards it.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "store/block.h"

namespace paracord {

class KeptPages {
 public:
  static constexpr uint64_t kPageElements = 64;

  // The chunks of each of the partition's blocks.
  explicit KeptPages(std::vector<std::vector<ChunkRef>> blocks);

  size_t blocks() const { return blocks_.size(); }
  size_t chunks(size_t block) const { return blocks_[block].size(); }
  // Whether a chunk that a block has now may be changed in place once its pages are kept: nobody
  // references it but the block and this.
  bool Allows(size_t block, size_t index, const ChunkRef& now) const {
    return blocks_[block][index].chunk == now && now.references() == 2;
  }
  // Copies the pages that have one of these elements of a chunk, but for those that are kept
  // already. Several threads may do so at once, each with its own chunk.
  void Keep(size_t block, size_t index, uint64_t first, uint64_t count);
  // Copies a chunk as it was to `to`, and lets go of it: once.
  void Take(size_t block, size_t index, std::vector<float>& to);
  uint64_t kept_bytes() const;

 private:
  struct Kept {
    ChunkRef chunk;
    std::bitset<kChunkElements / kPageElements> is_kept{};
    std::vector<uint16_t> pages{};  // that are kept, in the order of `values`
    std::vector<float> values{};    // kPageElements a page, also of a shorter last one
  };

  std::vector<std::vector<Kept>> blocks_;
};

}  // namespace paracord
