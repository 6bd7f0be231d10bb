#include "coordinator/core/round_gaps.h"

namespace paracord {

RoundGaps::Judgement RoundGaps::LedgersRead(const Reading& reading) {
  if (std::exchange(entered_, reading.entered) != reading.entered) reports_.clear();
  Judgement judgement;
  for (const auto& [place, sessions] : std::exchange(asked_, {})) {
    const auto& [lane, number] = place;
    if (lane < reading.next.size() && number < reading.next[lane]) continue;  // not missing
    if (reading.served) {
      judgement.untrue.insert(sessions.begin(), sessions.end());
      continue;
    }
    if (++reports_[place] < kReportsMax || judgement.lost.has_value()) continue;
    BatchId& batch = judgement.lost.emplace();
    batch.set_epoch(reading.epoch);
    batch.set_split(lane);
    batch.set_batch(number);
  }
  return judgement;
}

void RoundGaps::Forget() {
  noted_.clear();
  asked_.clear();
  reports_.clear();
}

}  // namespace paracord
