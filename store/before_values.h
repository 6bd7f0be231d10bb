// The values of a partition before its newest round, in synchronous training. A worker may die
// after it has completed a round on one ps and before it pushes the same batch to the next ps. Then
// another worker computes that batch again, and needs the values before the round from every
// partition, also from those that have applied the round. The values are kept from the update of a
// round until the first gradient of the next round: the worker of that gradient has pulled the
// values after the round from every partition, so every partition has applied the round.
//
// No slots are kept, since workers pull values alone. Both types are guarded by the partition's
// lock, and use their memory again for the next round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "store/block.h"

namespace paracord {

// For a dense partition: references to the chunks of its values (store/block.h). The next update
// finds these chunks shared, and writes into other chunks: those of the state that was kept before,
// unless somebody still reads them. So nothing is copied to keep values.
class DenseBefore {
 public:
  bool kept() const { return kept_; }
  const std::vector<ChunkRef>& values() const { return values_; }
  uint64_t updates() const { return updates_; }

  // Called before a round is applied: keeps `values`, which the partition has after `updates`
  // updates.
  void Keep(const Block& values, uint64_t updates);
  // Returns the chunk into which the update writes chunk `i` of `values`: like Block::Writable, but
  // instead of a fresh chunk returns, if there is one, a chunk of an older state that nobody reads
  // any more.
  ChunkRef Writable(const Block& values, size_t i);
  void Drop();

 private:
  bool kept_ = false;
  std::vector<ChunkRef> values_;
  uint64_t updates_ = 0;
  std::vector<ChunkRef> spare_;  // chunks of the state that was kept before this one
};

// For a table: the rows that the round touched, each with its values before the round or marked as
// absent, and the rows that were removed after the round. All other rows are as before the round.
// Whether a row had expired before the round is decided as of the last update before the
// round.
class RowsBefore {
 public:
  explicit RowsBefore(uint64_t row_elements) : row_elements_(row_elements) {}

  bool kept() const { return kept_; }
  uint64_t updates() const { return updates_; }
  // The number of the last update of a growing table before the round; nullopt: no update has
  // followed Keep, so the table's own last update is the one.
  std::optional<uint32_t> now() const { return now_; }
  uint64_t bytes() const;
  // If no values are kept now, frees the memory that is there for later rounds.
  void ReleaseSpare();

  // Called before a round is applied to values that have had `updates` updates.
  void Keep(uint64_t updates);
  void Drop();

  // ---- For the table, while it updates rows.

  // Called before an update of the rows `ids`, which ascend and are distinct; `now` is the number
  // of the update before it. A row for which Had is not called afterwards did not exist.
  void Touch(std::span<const uint64_t> ids, uint32_t now);
  // Says that the i-th row of the last Touch exists, and has these values before the update. Many
  // threads may call Had, each for rows of its own.
  void Had(size_t i, const float* values);
  // Says that a row is removed, and its values. Ignored for a row of the last Touch.
  void Removed(uint64_t id, const float* values);

  // ---- For pulls.

  // Puts kept values over `values`, which are the present ones of the rows `ids`, ascending and
  // distinct. For a touched row that did not exist before the round, `first(id, values)` sets the
  // initial values.
  using FirstValues = std::function<void(uint64_t id, std::span<float> values)>;
  void PutOver(std::span<const uint64_t> ids, std::span<float> values,
               const FirstValues& first) const;
  // Does the same for consecutive rows of a fixed table, the first of which has the id `first_id`.
  void PutOverRange(uint64_t first_id, std::span<float> values) const;

 private:
  const uint64_t row_elements_;
  bool kept_ = false;
  uint64_t updates_ = 0;
  std::optional<uint32_t> now_;
  std::vector<uint64_t> ids_;  // rows that the round touched, ascending
  std::vector<uint8_t> had_;   // whether the row at the same index in ids_ existed
  std::vector<float> values_;  // the values of the rows ids_, row after row
  std::vector<uint64_t> removed_ids_;
  std::vector<float> removed_;  // the values of the rows removed_ids_, row after row
};

}  // namespace paracord
