#include "keras/stage_schedule.h"

#include <algorithm>

namespace paracord {

std::vector<StageStep> ScheduleOfStage(size_t stages, size_t stage, size_t micro_batches) {
  // Later stages take this many micro-batches before the first comes back.
  const size_t ahead = std::min(stages - stage - 1, micro_batches);
  std::vector<StageStep> steps;
  for (size_t i = 0; i < micro_batches + ahead; ++i) {
    if (i < micro_batches) steps.push_back({true, i});
    if (i >= ahead) steps.push_back({false, i - ahead});
  }
  return steps;
}

size_t HeldAtMost(std::span<const StageStep> steps) {
  size_t held = 0, most = 0;
  for (const StageStep& step : steps) {
    held = step.forward ? held + 1 : held - 1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace paracord
