// Decides when a partition has the values of a state (ExchangeRequest.state): once it has entered
// the batches of the first `state` rounds of the job. Round r of an epoch is batch r of each lane
// that has a batch r; a round never spans two epochs. The functions depend only on the plan and a
// ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"
#include "store/ledger.h"

namespace paracord {

// INVALID_ARGUMENT says why no worker can want this state: the plan has no lanes, or the job, which
// ends after `batches_end` batches, has fewer than `state` rounds.
absl::Status CheckState(const DataPlan& plan, uint64_t state, uint64_t batches_end);

// Returns the lanes of which some batch in the first `state` rounds is not in the ledger:
// ascending, at most kMissingLanesMax, and only those of the first epoch in which batches are
// missing. If there are none, the partition has the state.
inline constexpr size_t kMissingLanesMax = 16;
std::vector<uint32_t> MissingLanes(const PartitionLedger& ledger, const DataPlan& plan,
                                   uint64_t state);

// The states that a push of `batch` may complete: the state after the batch's round or, if the
// batch is the last of its lane, that state and all later ones.
struct States {
  uint64_t first = 0;
  uint64_t last = 0;
};
States StatesAfter(const DataPlan& plan, const PlanBatch& batch);

}  // namespace paracord
