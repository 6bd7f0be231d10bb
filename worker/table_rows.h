// Rows of tables in a worker: the rows of several batches together, the values that were pulled for
// them, and the rows of batches to come. No I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "program/gradient_program.h"
#include "proto/paracord.pb.h"

namespace paracord {

using SharedRows = std::shared_ptr<const TableRows>;

// Returns the rows that any of the batches reads: for one batch its own pointer, for none null.
SharedRows RowsOfAll(std::span<const SharedRows> batches);

// The values of rows that an exchange brings or has brought. Made on the event loop; threads of the
// network may write values of replies.
struct PulledRows {
  std::vector<SharedRows> batches;  // for each batch of the exchange, the rows that it reads
  SharedRows rows;                  // RowsOfAll(batches)
  std::vector<std::pmr::vector<float>> values;  // index: variable; in the order of the ids
};

// Copies the rows `ids` of a table to `to`, from the rows with the ids `pulled` and these `values`.
// `pulled` must contain all of `ids`, in the same order.
void GatherRows(std::span<const uint64_t> pulled, std::span<const float> values,
                std::span<const uint64_t> ids, std::vector<float>& to);

// Remembers which rows of tables batches read: of the last `batches` batches that were added.
class RowsAhead {
 public:
  explicit RowsAhead(size_t batches) : batches_(batches) {}
  void Add(const BatchId& batch, SharedRows rows);
  SharedRows Find(const BatchId& batch) const;  // null: not known

 private:
  const size_t batches_;
  std::deque<std::pair<BatchId, SharedRows>> known_;
};

}  // namespace paracord
