// The second half of a step: its push is entered, and the values that it wants are read, at once or
// later and on another thread. It keeps nothing of the push but what became of it. The content must
// live until it is answered. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exchange/codec.h"
#include "store/partition_set.h"
#include "store/pinned_bytes.h"
#include "store/step_check.h"

namespace paracord {

// The bytes of the copies that answering a request takes for the rows it wants, as far as its
// header can be believed: a row takes a byte of the request at least.
uint64_t RowBytes(const Content& content, const ExchangeRequest& header);

class PendingPull {
 public:
  // `reserved`: bytes for the rows that are wanted (RowBytes), or none, and then they are counted.
  PendingPull(std::vector<CheckedWant> wants, PinnedReservation reserved)
      : wants_(std::move(wants)), reserved_(std::move(reserved)) {}

  // What the answer says of a partition.
  PartitionState& StateOf(uint32_t partition);
  // Reads the values that are wanted, as they are now. Called once, at last.
  DecodedReply Answer();

 private:
  std::vector<CheckedWant> wants_;
  PinnedReservation reserved_;
  DecodedReply reply_;
  // Of the reply, by partition. The messages stay where they are when it moves.
  std::map<uint32_t, PartitionState*> states_;
};

}  // namespace paracord
