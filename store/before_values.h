// The values of a partition as they were before its newest round. A worker may die between the push
// that completes a round on one ps and the push to the next one, and whoever computes its lane
// again needs the state before the round from the partitions that have left it. Kept from the
// update of a round until the first gradient of the next one: its worker has the state after the
// round from every partition, so nobody can need the one before any more.
//
// Of the values alone, and not of slots: workers pull nothing else. Both types are guarded by the
// lock of their partition, and both keep their memory for the next round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "store/block.h"

namespace paracord {

// Of a dense partition: references to the chunks of its values. The update that follows finds them
// shared and writes into others, which are those of the state before, so that no round copies
// values and none takes memory once there are two copies.
class DenseBefore {
 public:
  bool kept() const { return kept_; }
  const std::vector<ChunkRef>& values() const { return values_; }
  uint64_t updates() const { return updates_; }

  // A round is about to be applied to these values, which are of the partition's count of updates.
  void Keep(const Block& values, uint64_t updates);
  // The chunk into which the update writes chunk `i` of the values: as Block::Writable, but that of
  // an older state, if nobody reads it any more, in place of a fresh one.
  ChunkRef Writable(const Block& values, size_t i);
  void Drop();

 private:
  bool kept_ = false;
  std::vector<ChunkRef> values_;
  uint64_t updates_ = 0;
  std::vector<ChunkRef> spare_;  // of states that nobody asks for
};

// Of a table: the rows that a round touched, with the values that they had or as rows that there
// were not, and those that it removed to make room. All other rows are as they were. Whether a row
// had expired is judged by the batch that was the last one then.
class RowsBefore {
 public:
  explicit RowsBefore(uint64_t row_elements) : row_elements_(row_elements) {}

  bool kept() const { return kept_; }
  uint64_t updates() const { return updates_; }
  // The last batch of the growing table in that state; nullopt: as it is now, since no update has
  // followed.
  std::optional<uint32_t> now() const { return now_; }
  uint64_t bytes() const;
  // Gives back the memory that waits for a later round, if no values are kept now.
  void ReleaseSpare();

  // A round is about to be applied, to values that are of the partition's count of updates.
  void Keep(uint64_t updates);
  void Drop();

  // ---- For the table, while it updates rows.

  // An update of the rows `ids`, ascending and distinct, follows. Until Had says something of a row
  // there was none.
  void Touch(std::span<const uint64_t> ids, uint32_t now);
  // The row of the i-th id has these values before the update. Many threads, each for other rows.
  void Had(size_t i, const float* values);
  // A row is removed; one that the update touches does not count.
  void Removed(uint64_t id, const float* values);

  // ---- For pulls.

  // Puts the values of then over those of `ids`, ascending and distinct, as they are now. Of a row
  // that there was not, `first(id, values)` sets the values.
  using FirstValues = std::function<void(uint64_t id, std::span<float> values)>;
  void PutOver(std::span<const uint64_t> ids, std::span<float> values,
               const FirstValues& first) const;
  // The same for rows [first_id, first_id + n) of a fixed table.
  void PutOverRange(uint64_t first_id, std::span<float> values) const;

 private:
  const uint64_t row_elements_;
  bool kept_ = false;
  uint64_t updates_ = 0;
  std::optional<uint32_t> now_;
  std::vector<uint64_t> ids_;  // that the round touched, ascending
  std::vector<uint8_t> had_;   // whether there was a row, by id
  std::vector<float> values_;  // (ids, row_elements)
  std::vector<uint64_t> removed_ids_;
  std::vector<float> removed_;  // (removed_ids, row_elements)
};

}  // namespace paracord
