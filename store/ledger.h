// The ledger of one partition: which batches of the data plan have been entered, applied or
// rejected. Does no I/O; guarded by the partition's lock. Splits are numbered through all epochs,
// epoch * splits per epoch + split. Neighbouring finished splits merge into intervals, so that
// memory depends on the number of open splits, not on the length of the job.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// The identity of a batch, with what the plan says of its split.
struct PlanBatch {
  uint64_t split = 0;  // numbered through all epochs
  uint32_t batch = 0;
  uint32_t split_batches = 0;  // batches in the split
  uint32_t lanes = 1;          // a push may be the sum of so many lanes, from `split` on
};

// INVALID_ARGUMENT: the plan is invalid or has no such batch. Leaves `lanes` at 1.
absl::StatusOr<PlanBatch> FindBatch(const DataPlan& plan, const BatchId& id);

class PartitionLedger {
 public:
  struct Entry {
    PushOutcome outcome;  // PUSH_APPLIED (also if rejected), PUSH_ALREADY_APPLIED or PUSH_GAP
    uint32_t next;        // the first batch of the split that is not entered
  };

  // Enters the batch, as applied or rejected, if it is the next of its split; otherwise changes
  // nothing.
  Entry Enter(const PlanBatch& batch, bool rejected);

  // The first batch of the split that is not entered; `split_batches` if all are.
  uint32_t Next(const PlanBatch& batch) const;
  // The first split that is not finished.
  uint64_t FirstUnfinished() const;

  uint64_t applied() const { return applied_; }
  uint64_t rejected() const { return rejected_; }
  // In synchronous training: rounds in which some batch was not rejected. The caller calls
  // CountStep after it has entered the batches of such a round.
  uint64_t steps() const { return steps_; }
  void CountStep() { ++steps_; }

  // Without `intervals`, only the counts of batches and steps.
  Ledger ToProto(bool intervals) const;
  // DATA_LOSS: intervals out of order, batches beyond a split, counts that do not add up, or more
  // steps than applied batches. INVALID_ARGUMENT: the plan is invalid.
  static absl::StatusOr<PartitionLedger> FromProto(const Ledger& ledger, const DataPlan& plan);

 private:
  bool IsFinished(uint64_t split) const;
  void Finish(uint64_t split);

  // Intervals of finished splits: first split -> last split, inclusive; disjoint, not touching.
  std::map<uint64_t, uint64_t> finished_;
  std::map<uint64_t, uint32_t> open_;  // split -> next batch, never 0
  uint64_t applied_ = 0;
  uint64_t rejected_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace paracord
