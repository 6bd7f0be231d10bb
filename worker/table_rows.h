// Rows of tables in a worker: the rows of several batches together, pulled values, and the rows of
// coming batches. No I/O.
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

// Returns all rows that the batches read: for a single batch the batch's own rows, for no batch
// null.
SharedRows RowsOfAll(std::span<const SharedRows> batches);

// Values of rows that are pulled, or were. Made on the loop; the network may write bytes of
// replies.
struct PulledRows {
  std::vector<SharedRows> batches;              // the batches that the rows are pulled for
  SharedRows rows;                              // the rows of all `batches`
  std::vector<std::pmr::vector<float>> values;  // index: variable; in the order of the ids
};

// Copies a batch's rows from the pulled rows to `to`. All of the batch's rows must have been
// pulled.
void GatherRows(std::span<const uint64_t> pulled, std::span<const float> values,
                std::span<const uint64_t> ids, std::vector<float>& to);

// Remembers the rows of the last `batches` batches that were added.
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
