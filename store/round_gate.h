// Decides when a partition has the values of a state (ExchangeRequest.state): once it has entered
// the batches of the first `state` rounds of the job. Round r of an epoch is batch r of each lane
// that has one; a round never spans two epochs. Pure functions over the plan and a ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"
#include "store/ledger.h"

namespace paracord {

// INVALID_ARGUMENT says why the plan never has this state: no lanes, or the job, which ends after
// `batches_end` batches, has fewer rounds.
absl::Status CheckState(const DataPlan& plan, uint64_t state, uint64_t batches_end);

// The lanes that lack batches of the first `state` rounds, ascending, kMissingLanesMax at most, in
// the first epoch with missing batches. None: the values may be read.
inline constexpr size_t kMissingLanesMax = 16;
std::vector<uint32_t> MissingLanes(const PartitionLedger& ledger, const DataPlan& plan,
                                   uint64_t state);

// The range of states that entering a batch may complete.
struct States {
  uint64_t first = 0;
  uint64_t last = 0;
};
States StatesAfter(const DataPlan& plan, const PlanBatch& batch);

}  // namespace paracord
