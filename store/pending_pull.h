// The second half of a step: its push is entered, and the values that it wants are read, at once or
// later and on another thread. It keeps nothing of the push but what became of it. The content must
// live until it is answered. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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
  // Whether its step has a push, which has been entered.
  bool pushed() const { return !states_.empty(); }
  const std::vector<CheckedWant>& wants() const { return wants_; }
  // The memory that it takes while it waits.
  uint64_t bytes() const;
  // Gives back the bytes that are reserved for rows, and reserves them again: false if there is no
  // room for them by now.
  void Suspend() { reserved_.Suspend(); }
  bool Resume() { return reserved_.Renew(); }

  // Adds what partitions tell of their rounds' means (Partition::SquaresOfMean) to the answer.
  void TellSquares(uint64_t generation);

  // One of the two is called once, at last. Reads the values that are wanted, as they are now or at
  // a state. OUT_OF_RANGE names a partition that does not have the state, perhaps no longer.
  absl::StatusOr<DecodedReply> Answer(Partition::AtState state);
  // Says that there are none yet, and what is missing.
  DecodedReply AnswerWithout(const Partition::Lack& lack);

 private:
  std::vector<CheckedWant> wants_;
  PinnedReservation reserved_;
  DecodedReply reply_;
  // Of the reply, by partition. The messages stay where they are when it moves.
  std::map<uint32_t, PartitionState*> states_;
};

}  // namespace paracord
