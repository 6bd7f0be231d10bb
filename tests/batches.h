// Data plans and their batches, for tests.
#pragma once

#include <cstdint>

#include "config/data_plan.h"

namespace paracord {

inline DataPlan PlanOf(uint64_t records, uint32_t batch, uint32_t split_batches) {
  DataPlan plan;
  plan.set_records(records);
  plan.set_batch(batch);
  plan.set_split_batches(split_batches);
  return plan;
}

// Returns a plan whose epochs are cut into lanes.
inline DataPlan PlanOfLanes(uint64_t records, uint32_t batch, uint32_t lanes) {
  DataPlan plan = PlanOf(records, batch, 0);
  plan.set_lanes(lanes);
  plan.set_split_batches(static_cast<uint32_t>(DivideUp(BatchesPerEpoch(plan), lanes)));
  return plan;
}

inline BatchId BatchOf(uint64_t epoch, uint64_t split, uint32_t batch) {
  BatchId id;
  id.set_epoch(epoch);
  id.set_split(split);
  id.set_batch(batch);
  return id;
}

}  // namespace paracord
