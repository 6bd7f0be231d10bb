// The second half of a step: after the push is entered, the wanted values are read, at once or
// later, perhaps on another thread. Keeps nothing of the push except its outcome. The content must
// live until the answer. One thread at a time.
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

// The bytes of row copies for the answer to a request. The header's counts are believed only as far
// as the request's size allows: each row takes at least a byte of it.
uint64_t RowBytes(const PartitionSet& content, const ExchangeRequest& header);

class PendingPull {
 public:
  // `reserved`: RowBytes, reserved for the wanted rows; if none, the copies count when made.
  PendingPull(std::vector<CheckedWant> wants, PinnedReservation reserved)
      : wants_(std::move(wants)), reserved_(std::move(reserved)) {}

  // The entry of a partition in the answer.
  PartitionState& StateOf(uint32_t partition);
  // Whether the step has a push, which has been entered.
  bool pushed() const { return !states_.empty(); }
  const std::vector<CheckedWant>& wants() const { return wants_; }
  // The memory of the pull while it waits.
  uint64_t bytes() const;
  // Suspend gives back the bytes reserved for rows; Resume reserves them again, and returns false
  // if there is no room now.
  void Suspend() { reserved_.Suspend(); }
  bool Resume() { return reserved_.Renew(); }

  // Adds the squares of the partitions' round means (Partition::SquaresOfMean) to the answer.
  void TellSquares(uint64_t generation);

  // Either Answer or AnswerWithout is called, last and once. Reads the wanted values, current or at
  // a state. OUT_OF_RANGE names a partition that does not have the state, or no longer.
  absl::StatusOr<DecodedReply> Answer(Partition::AtState state);
  // Answers without values, and tells what is missing.
  DecodedReply AnswerWithout(const Partition::Lack& lack);

 private:
  std::vector<CheckedWant> wants_;
  PinnedReservation reserved_;
  DecodedReply reply_;
  // Entries in reply_, by partition. They stay in place when the reply moves.
  std::map<uint32_t, PartitionState*> states_;
};

}  // namespace paracord
