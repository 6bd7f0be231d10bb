// The job's keys about rounds: `strategy`, `consistency`, `round_batches`, `backup`, `recovery`,
// `reduce` and `cross_device_ops`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Reads the keys about rounds into `job`. Called after the keys `split_batches`, `overlap` and
// `compression` have been read into `job`: the keys about rounds may conflict with them. A problem
// names both keys that conflict.
void ReadRounds(JsonFields& fields, Problems& problems, Job& job);

// Adds the keys of `guarantees`, except `stages`, to `job`, the JSON of JobToJson. Leaves out newer
// keys at their default, so that the texts of older jobs do not change.
void GuaranteesToJson(const GuaranteesSpec& guarantees, nlohmann::json& job);

// Returns the number of batches (lanes) in a round: the job's `round_batches`, or, if it has none,
// `devices`, the number of devices of the workers that the cluster names; 0 for a job without
// rounds. INVALID_ARGUMENT: `devices` is needed, and is 0 or above kLanesMax.
absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t devices);

}  // namespace paracord
