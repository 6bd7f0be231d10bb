// The values of a partition before its newest round, in synchronous training. A worker may die
// after it completed a round on one ps and before it pushed to the next; whoever computes its batch
// again needs the state before the round, also from partitions that have applied the round. The
// values are kept from the update of a round until the first gradient of the next round: its worker
// has pulled the state after the round from every partition, so no partition lacks the round any
// more.
//
// Only values are kept, no slots: workers pull nothing else. Both types are guarded by the
// partition's lock and reuse their memory for the next round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "store/block.h"

namespace paracord {

// For a dense partition: references to the chunks of its values. The next update finds these chunks
// shared, and writes into chunks that an earlier state no longer needs. So a round copies no
// values, and takes no more memory once there are two sets of chunks.
class DenseBefore {
 public:
  bool kept() const { return kept_; }
  const std::vector<ChunkRef>& values() const { return values_; }
  uint64_t updates() const { return updates_; }

  // Called before a round is applied: keeps `values`, which the partition has after `updates`
  // updates.
  void Keep(const Block& values, uint64_t updates);
  // Returns the chunk into which the update writes chunk `i` of `values`: like Block::Writable, but
  // instead of a fresh chunk it reuses one of an older state that nobody reads any more.
  ChunkRef Writable(const Block& values, size_t i);
  void Drop();

 private:
  bool kept_ = false;
  std::vector<ChunkRef> values_;
  uint64_t updates_ = 0;
  std::vector<ChunkRef> spare_;  // chunks of the state that was kept before
};

// For a table: the rows that a round touched, each with its earlier values or marked as absent, and
// the rows that were removed meanwhile. All other rows are as before the round. Whether a row had
// expired is decided as of the last update before the round.
class RowsBefore {
 public:
  explicit RowsBefore(uint64_t row_elements) : row_elements_(row_elements) {}

  bool kept() const { return kept_; }
  uint64_t updates() const { return updates_; }
  // The last update of a growing table before the round; nullopt: no update has followed Keep, so
  // the table's own last update counts.
  std::optional<uint32_t> now() const { return now_; }
  uint64_t bytes() const;
  // Frees the memory that is kept to be used again in a later round, if no values are kept now.
  void ReleaseSpare();

  // Called before a round is applied, to values that belong to the count `updates`.
  void Keep(uint64_t updates);
  void Drop();

  // ---- For the table, while it updates rows.

  // Called before an update of the rows `ids`, which ascend and are distinct; `now` is the update
  // before. A row for which Had is not called did not exist.
  void Touch(std::span<const uint64_t> ids, uint32_t now);
  // The i-th of these rows exists, with these values before the update. Many threads may call it,
  // each for its own rows.
  void Had(size_t i, const float* values);
  // Says that a row is removed, and its values. Ignored for a row that the update touches.
  void Removed(uint64_t id, const float* values);

  // ---- For pulls.

  // Puts kept values over `values`, which are the present ones of the rows `ids`, ascending and
  // distinct. For a row that did not exist before the round, `first(id, values)` sets the values.
  using FirstValues = std::function<void(uint64_t id, std::span<float> values)>;
  void PutOver(std::span<const uint64_t> ids, std::span<float> values,
               const FirstValues& first) const;
  // PutOver for the rows from `first_id` on of a fixed table.
  void PutOverRange(uint64_t first_id, std::span<float> values) const;

 private:
  const uint64_t row_elements_;
  bool kept_ = false;
  uint64_t updates_ = 0;
  std::optional<uint32_t> now_;
  std::vector<uint64_t> ids_;  // rows that the round touched, ascending
  std::vector<uint8_t> had_;   // whether the row existed, by index in ids_
  std::vector<float> values_;  // (ids, row_elements)
  std::vector<uint64_t> removed_ids_;
  std::vector<float> removed_;  // (removed_ids, row_elements)
};

}  // namespace paracord
