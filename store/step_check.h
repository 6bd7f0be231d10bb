// Checks a step against what is held, completely, before anything changes.
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
  std::optional<PlanBatch> batch;  // absent: values alone are wanted
  std::vector<CheckedUpdate> updates;
  std::vector<CheckedWant> wants;
  std::optional<RoundNorms> norms;
};

// INVALID_ARGUMENT names the partition and the reason.
absl::StatusOr<CheckedStep> CheckStep(const PartitionSet& content, StepRequest request);

// The elements of these rows, or of all.
uint64_t ElementsOf(const Partition& partition, const Rows& rows);

}  // namespace paracord
