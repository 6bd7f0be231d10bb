#include "coordinator/core/round_gaps.h"

namespace paracord {

std::optional<BatchId> RoundGaps::LedgersRead(uint64_t epoch, const std::vector<uint32_t>& next,
                                              uint64_t entered) {
  if (std::exchange(entered_, entered) != entered) reports_.clear();
  for (const auto& [lane, number] : std::exchange(asked_, {})) {
    if (lane < next.size() && number < next[lane]) continue;  // every partition has it
    if (++reports_[{lane, number}] < kReportsMax) continue;
    BatchId batch;
    batch.set_epoch(epoch);
    batch.set_split(lane);
    batch.set_batch(number);
    return batch;
  }
  return std::nullopt;
}

void RoundGaps::Forget() {
  noted_.clear();
  asked_.clear();
  reports_.clear();
}

}  // namespace paracord
