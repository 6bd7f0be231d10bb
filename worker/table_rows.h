// Rows of tables in a worker: the rows that several batches together read, the values that are
// pulled for these rows, and the rows that the next batches read. No I/O.
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

// Returns the rows that any of the batches reads; null without batches.
SharedRows RowsOfAll(std::span<const SharedRows> batches);

// The values of rows that an exchange brings or has brought. Made on the event loop; while the
// exchange is under way, threads of the network may write the values.
struct PulledRows {
  std::vector<SharedRows> batches;  // for each batch that the exchange pulls rows for, its rows
  SharedRows rows;                  // RowsOfAll(batches)
  std::vector<std::pmr::vector<float>> values;  // index: variable; the rows in the order of the ids
};

// Copies the rows `ids` of a table to `to`. `values` has the rows with the ids `pulled`, which must
// contain all of `ids`, in the same order.
void GatherRows(std::span<const uint64_t> pulled, std::span<const float> values,
                std::span<const uint64_t> ids, std::vector<float>& to);

// Remembers, for the last `batches` batches that were added, which rows of tables they read.
class RowsAhead {
 public:
  explicit RowsAhead(size_t batches) : batches_(batches) {}
  void Add(const BatchId& batch, SharedRows rows);
  SharedRows Find(const BatchId& batch) const;  // null: the batch is not remembered

 private:
  const size_t batches_;
  std::deque<std::pair<BatchId, SharedRows>> known_;
};

}  // namespace paracord
