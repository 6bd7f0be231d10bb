// The ledger of one partition: which batches of the data plan have been entered, applied or
// rejected. Does no I/O; guarded by the partition's lock. Splits are numbered through all epochs:
// epoch * splits per epoch + split. Neighbouring finished splits merge into intervals, so that
// memory does not depend on the length of the job, only on how many splits are open.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// A batch, and what the plan says of its split.
struct PlanBatch {
  uint64_t split = 0;  // numbered through all epochs
  uint32_t batch = 0;
  uint32_t split_batches = 0;  // batches in the split
  uint32_t lanes = 1;          // how many lanes, from `split` on, a push is the sum of
};

// Returns the batch, with `lanes` 1. INVALID_ARGUMENT: the plan is invalid or has no such batch.
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
  // In synchronous training: the rounds in which some batch was not rejected. The caller calls
  // CountStep after it has entered the batches of such a round.
  uint64_t steps() const { return steps_; }
  void CountStep() { ++steps_; }

  // Without `intervals`, the result has only the counts of batches and steps.
  Ledger ToProto(bool intervals) const;
  // DATA_LOSS: splits are out of order, a batch is beyond its split, counts do not add up, or there
  // are more steps than applied batches. INVALID_ARGUMENT: the plan is invalid.
  static absl::StatusOr<PartitionLedger> FromProto(const Ledger& ledger, const DataPlan& plan);

 private:
  bool IsFinished(uint64_t split) const;
  void Finish(uint64_t split);

  // Intervals of finished splits: first split -> last split, inclusive; disjoint, not touching.
  std::map<uint64_t, uint64_t> finished_;
  std::map<uint64_t, uint32_t> open_;  // split -> first batch not entered, never 0
  uint64_t applied_ = 0;
  uint64_t rejected_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace paracord
