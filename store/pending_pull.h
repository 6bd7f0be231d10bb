// The second half of a step: after the push has been entered, the wanted values are read, at once
// or later, perhaps on another thread. Of the push, a PendingPull has only the outcome. The
// partitions must live until the answer. One thread at a time.
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

// Returns the bytes that the copies of rows in the answer to a request take. A count of rows in the
// header is believed only up to the bytes that the request has for the ids: each takes at least
// one.
uint64_t RowBytes(const PartitionSet& content, const ExchangeRequest& header);

class PendingPull {
 public:
  // `reserved` has RowBytes, reserved for copies of the wanted rows. A copy for which not enough is
  // left counts when it is made.
  PendingPull(std::vector<CheckedWant> wants, PinnedReservation reserved)
      : wants_(std::move(wants)), reserved_(std::move(reserved)) {}

  // Returns the entry of a partition in the answer, and adds it if it is missing.
  PartitionState& StateOf(uint32_t partition);
  // Whether the step has a push, which has then been entered. To be asked before TellSquares.
  bool pushed() const { return !states_.empty(); }
  const std::vector<CheckedWant>& wants() const { return wants_; }
  // The memory that the pull takes while it waits, in bytes.
  uint64_t bytes() const;
  // Suspend gives back the bytes reserved for rows. Resume reserves them again, or returns false if
  // there is no room now.
  void Suspend() { reserved_.Suspend(); }
  bool Resume() { return reserved_.Renew(); }

  // Adds the squares of the wanted partitions (Partition::SquaresOfMean) to the answer.
  void TellSquares(uint64_t generation);

  // Either Answer or AnswerWithout is called, once, as the last function. Answer reads the wanted
  // values, those of `state` or the current ones. OUT_OF_RANGE names a partition that does not have
  // the state yet, or no longer.
  absl::StatusOr<DecodedReply> Answer(Partition::AtState state);
  // Answers without values, and says what they wait for.
  DecodedReply AnswerWithout(const Partition::Lack& lack);

 private:
  std::vector<CheckedWant> wants_;
  PinnedReservation reserved_;
  DecodedReply reply_;
  // Entries in reply_, by id of the partition. They stay at their addresses when the reply moves.
  std::map<uint32_t, PartitionState*> states_;
};

}  // namespace paracord
