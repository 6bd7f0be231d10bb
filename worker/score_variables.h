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

  // Returns an object {name: value}, in the text of which a value that is not finite is null.
  nlohmann::json MetricsToJson() const;
};

// `seed`: the job's seed, for the initial values of rows that a growing table does not have yet.
// `batch`: how many records are scored at a time. INVALID_ARGUMENT: the workload has no test data,
// the model has other variables than the checkpoint, or a record does not fit the model. Returns
// CANCELLED within 16 batches after `stop` is set.
absl::StatusOr<Score> ScoreVariables(Workload& workload, const StoredVariables& stored,
                                     uint64_t seed, uint64_t batch, const std::atomic<bool>& stop);

}  // namespace paracord
