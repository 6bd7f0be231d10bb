// Checks a step completely, against the partitions of this store, before anything changes.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "exchange/step.h"
#include "store/partition_set.h"

namespace paracord {

struct CheckedUpdate {
  Partition* partition = nullptr;
  PartitionUpdate update;
  bool rejected = false;
};

struct CheckedWant {
  const Partition* partition = nullptr;
  Want want;
};

struct CheckedStep {
  std::optional<PlanBatch> batch;  // absent: the step has no push
  std::vector<CheckedUpdate> updates;
  std::vector<CheckedWant> wants;
  std::optional<RoundNorms> norms;
};

// INVALID_ARGUMENT says what is wrong, and names the partition if one is at fault.
absl::StatusOr<CheckedStep> CheckStep(const PartitionSet& content, StepRequest request);

// The number of elements in the rows `rows` of the partition; in all of its rows, if nullopt.
uint64_t ElementsOf(const Partition& partition, const Rows& rows);

}  // namespace paracord
