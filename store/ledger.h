// The ledger of one partition: which batches of the data plan it has entered. Pure, without a lock:
// it lives inside a partition and is guarded by that partition's. Splits are numbered through all
// epochs, epoch * splits per epoch + split. Its memory is what is open: finished splits merge into
// intervals, of which there are never many more than open splits.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// A batch's identity with what the plan says about its split.
struct PlanBatch {
  uint64_t split = 0;  // through all epochs
  uint32_t batch = 0;
  uint32_t split_batches = 0;  // batches of this very split
};

// INVALID_ARGUMENT if the plan has no such batch.
absl::StatusOr<PlanBatch> FindBatch(const DataPlan& plan, const BatchId& id);

class PartitionLedger {
 public:
  struct Entry {
    PushOutcome outcome;  // applied, already applied or gap
    uint32_t next;        // first batch of the split not entered, after this call
  };

  // Enters the batch if it is the next of its split; otherwise changes nothing.
  Entry Enter(const PlanBatch& batch, bool rejected);

  uint64_t applied() const { return applied_; }
  uint64_t rejected() const { return rejected_; }

  // `intervals` false: the counts alone.
  Ledger ToProto(bool intervals) const;
  // DATA_LOSS if it is no ledger of this plan: intervals in disorder, batches that a split does not
  // have, counts that do not add up.
  static absl::StatusOr<PartitionLedger> FromProto(const Ledger& ledger, const DataPlan& plan);

 private:
  uint32_t Next(const PlanBatch& batch) const;
  bool IsFinished(uint64_t split) const;
  void Finish(uint64_t split);

  std::map<uint64_t, uint64_t> finished_;  // first -> last, inclusive; disjoint, not touching
  std::map<uint64_t, uint32_t> open_;      // split -> next, never 0
  uint64_t applied_ = 0;
  uint64_t rejected_ = 0;
};

}  // namespace paracord
