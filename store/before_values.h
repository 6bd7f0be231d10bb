// The values of a partition before its newest round. A worker may die after it completed a round on
// one ps and before it pushed to the next; whoever computes its lane again needs the state before
// the round, also from partitions that have applied the round. Kept from the update of a round
// until the first gradient of the next round: its worker has pulled the state after the round from
// every partition, so the earlier state is needed no more.
//
// Holds values alone, no slots: workers pull nothing else. Both types are guarded by the
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
// shared and writes into the chunks of the state before, so that a round copies no values, and
// takes no memory once two copies exist.
class DenseBefore {
 public:
  bool kept() const { return kept_; }
  const std::vector<ChunkRef>& values() const { return values_; }
  uint64_t updates() const { return updates_; }

  // Called before a round is applied: keeps these values, which belong to the count `updates`.
  void Keep(const Block& values, uint64_t updates);
  // The chunk into which the update writes chunk `i` of the values: like Block::Writable, but
  // instead of a fresh chunk reuses one of an older state that nobody reads any more.
  ChunkRef Writable(const Block& values, size_t i);
  void Drop();

 private:
  bool kept_ = false;
  std::vector<ChunkRef> values_;
  uint64_t updates_ = 0;
  std::vector<ChunkRef> spare_;  // chunks of states that nobody asks for
};

// For a table: the rows that a round touched, each with its earlier values or as absent, and the
// rows removed to make room. All other rows are unchanged. Whether a row had expired is judged as
// of the last batch of the state before.
class RowsBefore {
 public:
  explicit RowsBefore(uint64_t row_elements) : row_elements_(row_elements) {}

  bool kept() const { return kept_; }
  uint64_t updates() const { return updates_; }
  // The last batch of the growing table in the kept state; nullopt: no update has followed, so the
  // table's own batch counts.
  std::optional<uint32_t> now() const { return now_; }
  uint64_t bytes() const;
  // Frees the memory reserved for a later round, if no values are kept now.
  void ReleaseSpare();

  // A round is about to be applied, to values that are of the partition's count of updates.
  void Keep(uint64_t updates);
  void Drop();

  // ---- For the table, while it updates rows.

  // Called before an update of the rows `ids`, ascending and distinct. A row for which Had is not
  // called did not exist.
  void Touch(std::span<const uint64_t> ids, uint32_t now);
  // The i-th row has these values before the update. Many threads may call it, each for its own
  // rows.
  void Had(size_t i, const float* values);
  // A row is removed. Ignored for a row that the update touches.
  void Removed(uint64_t id, const float* values);

  // ---- For pulls.

  // Replaces the present values of the rows `ids`, ascending and distinct, by the kept ones. For a
  // row that did not exist, `first(id, values)` sets the values.
  using FirstValues = std::function<void(uint64_t id, std::span<float> values)>;
  void PutOver(std::span<const uint64_t> ids, std::span<float> values,
               const FirstValues& first) const;
  // Does the same for rows [first_id, first_id + n) of a fixed table.
  void PutOverRange(uint64_t first_id, std::span<float> values) const;

 private:
  const uint64_t row_elements_;
  bool kept_ = false;
  uint64_t updates_ = 0;
  std::optional<uint32_t> now_;
  std::vector<uint64_t> ids_;  // touched by the round, ascending
  std::vector<uint8_t> had_;   // whether there was a row, by id
  std::vector<float> values_;  // (ids, row_elements)
  std::vector<uint64_t> removed_ids_;
  std::vector<float> removed_;  // (removed_ids, row_elements)
};

}  // namespace paracord
