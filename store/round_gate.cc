#include "store/round_gate.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "config/data_plan.h"

namespace paracord {
absl::Status CheckState(const DataPlan& plan, uint64_t state, uint64_t batches_end) {
  if (plan.lanes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the values of state ", state,
                     " are wanted, and the job has no lanes: its \"consistency\" is \"async\""));
  }
  const uint64_t rounds = RoundsOfFirst(plan, batches_end);
  if (state <= rounds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the values of state ", state,
                                                 " are wanted, and the job has ", rounds,
                                                 " rounds: no worker ever gets there"));
}

std::vector<uint32_t> MissingLanes(const PartitionLedger& ledger, const DataPlan& plan,
                                   uint64_t state) {
  const uint64_t lanes = SplitsPerEpoch(plan);
  const uint64_t epoch = state / plan.split_batches();
  const uint64_t unfinished = ledger.FirstUnfinished();
  std::vector<uint32_t> missing;
  if (unfinished / lanes > epoch) return missing;
  const uint64_t rounds =
      unfinished / lanes < epoch ? plan.split_batches() : state % plan.split_batches();
  for (uint64_t split = unfinished; split / lanes == unfinished / lanes; ++split) {
    const uint32_t batches = BatchesInSplit(plan, split % lanes);
    if (ledger.Next({split, 0, batches}) >= std::min<uint64_t>(rounds, batches)) continue;
    missing.push_back(static_cast<uint32_t>(split % lanes));
    if (missing.size() == kMissingLanesMax) break;
  }
  return missing;
}

States StatesAfter(const DataPlan& plan, const PlanBatch& batch) {
  const uint64_t first =
      StateBefore(plan, batch.split / SplitsPerEpoch(plan), uint64_t{batch.batch} + 1);
  // Where the lane is finished it holds up no later state either.
  const bool finished = batch.batch + 1 == batch.split_batches;
  return {first, finished ? std::numeric_limits<uint64_t>::max() : first};
}

}  // namespace paracord
