// The ledger of one partition: which batches of the data plan have been applied to the partition.
// Pure; guarded by the partition's lock. Splits are numbered through all epochs, epoch * splits per
// epoch + split. Finished splits merge into intervals, so that memory depends only on the number of
// open splits.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The identity of a batch, with the plan's facts about its split.
struct PlanBatch {
  uint64_t split = 0;  // through all epochs
  uint32_t batch = 0;
  uint32_t split_batches = 0;  // batches of this split
  uint32_t lanes = 1;          // lanes from this split on, pushed together
};

// INVALID_ARGUMENT if the plan has no such batch.
absl::StatusOr<PlanBatch> FindBatch(const DataPlan& plan, const BatchId& id);

class PartitionLedger {
 public:
  struct Entry {
    PushOutcome outcome;  // applied, already applied or gap
    uint32_t next;        // the first batch of the split that is not entered yet
  };

  // Enters the batch if it is the next of its split; otherwise changes nothing.
  Entry Enter(const PlanBatch& batch, bool rejected);

  // The first batch of the split that is not entered yet. Only the split of `batch` matters.
  uint32_t Next(const PlanBatch& batch) const;
  // The first split that is not finished.
  uint64_t FirstUnfinished() const;

  uint64_t applied() const { return applied_; }
  uint64_t rejected() const { return rejected_; }
  // In synchronous training: rounds in which some batch was not rejected, counted by CountStep
  // after the batches of a round are entered.
  uint64_t steps() const { return steps_; }
  void CountStep() { ++steps_; }

  // Without `intervals`, only the counts.
  Ledger ToProto(bool intervals) const;
  // DATA_LOSS if the ledger does not fit the plan: intervals out of order, batches beyond a split,
  // counts that do not add up, or more steps than batches.
  static absl::StatusOr<PartitionLedger> FromProto(const Ledger& ledger, const DataPlan& plan);

 private:
  bool IsFinished(uint64_t split) const;
  void Finish(uint64_t split);

  std::map<uint64_t, uint64_t> finished_;  // first -> last, inclusive; disjoint, not touching
  std::map<uint64_t, uint32_t> open_;      // split -> next, never 0
  uint64_t applied_ = 0;
  uint64_t rejected_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace paracord
