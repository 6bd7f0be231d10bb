// Scores a checkpoint on the whole test data, for the evaluator and `paracord evaluate`. Used on
// the thread that computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "program/workload.h"
#include "worker/scored_checkpoint.h"

namespace paracord {

struct Score {
  uint64_t examples = 0;                                // how many records the test data have
  std::vector<std::pair<std::string, double>> metrics;  // "loss" first

  nlohmann::json MetricsToJson() const;  // {name: value}; as text, null for a value not finite
};

// `seed`: the job's, for the initial values of rows that a growing table lacks. `batch`: records
// scored at a time. INVALID_ARGUMENT: the workload has no test data, the model has other variables
// than the checkpoint, or a record does not fit. CANCELLED within 16 batches after `stop` is set.
absl::StatusOr<Score> ScoreVariables(Workload& workload, const StoredVariables& stored,
                                     uint64_t seed, uint64_t batch, const std::atomic<bool>& stop);

}  // namespace paracord
