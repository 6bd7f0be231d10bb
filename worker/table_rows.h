// Rows of tables in a worker: those of several batches together, their values as they were pulled,
// and which rows the batches read that come next. No I/O.
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

// The rows that any of the batches reads; the batch's own if there is just one, null if there is
// none.
SharedRows RowsOfAll(std::span<const SharedRows> batches);

// Values of rows on their way to the worker, and there. Made on the loop; bytes of replies may be
// written into it by the network.
struct PulledRows {
  std::vector<SharedRows> batches;              // for which they were pulled
  SharedRows rows;                              // of all of them
  std::vector<std::pmr::vector<float>> values;  // by variable, in the order of the ids
};

// Copies the rows of a batch, which must be among the pulled ones, to `to`.
void GatherRows(std::span<const uint64_t> pulled, std::span<const float> values,
                std::span<const uint64_t> ids, std::vector<float>& to);

// The rows of the few batches that were looked at last, `batches` of them.
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
