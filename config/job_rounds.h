// The job's keys about rounds: `strategy`, `consistency`, `round_batches`, `backup`, `recovery`,
// `reduce` and `cross_device_ops`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Reads the keys about rounds into `job`. Called after the job's keys `split_batches`, `overlap`
// and `compression` have been read, with which they may conflict. Problems name both keys that
// conflict.
void ReadRounds(JsonFields& fields, Problems& problems, Job& job);

// Adds the keys of guarantees, except `stages`, to the JSON of JobToJson. A newer key at its
// default is left out, so that the texts of older jobs do not change.
void GuaranteesToJson(const GuaranteesSpec& guarantees, nlohmann::json& job);

// Returns the number of batches (lanes) in a round: the job's `round_batches`, or else `devices`,
// the number of devices of the workers that the cluster names; 0 for a job without rounds.
// INVALID_ARGUMENT: `devices` is needed, and is 0 or above kLanesMax.
absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t devices);

}  // namespace paracord
