// Decides when values that are wanted of a state (ExchangeRequest.state) may be read from a
// partition: once it has entered the batches of so many rounds of the job, counted from its begin.
// Round r of an epoch is batch r of each of its lanes that has one, and no round is of two epochs.
// Pure functions over the plan and a ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"
#include "store/ledger.h"

namespace paracord {

// INVALID_ARGUMENT names the reason why the plan never has this state: it has no lanes, or the job,
// which ends after `batches_end` batches, has fewer rounds.
absl::Status CheckState(const DataPlan& plan, uint64_t state, uint64_t batches_end);

// The lanes that lack batches of the first `state` rounds, ascending, kMissingLanesMax at most: of
// the first epoch of which some are lacking. None: values may be read.
inline constexpr size_t kMissingLanesMax = 16;
std::vector<uint32_t> MissingLanes(const PartitionLedger& ledger, const DataPlan& plan,
                                   uint64_t state);

// The states that may be reached when this batch is entered, first to last.
struct States {
  uint64_t first = 0;
  uint64_t last = 0;
};
States StatesAfter(const DataPlan& plan, const PlanBatch& batch);

}  // namespace paracord
