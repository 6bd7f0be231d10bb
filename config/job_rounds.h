// The job's keys about rounds: `strategy`, `consistency`, `round_batches`, `backup`, `recovery`,
// `reduce` and `cross_device_ops`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Reads these keys into `job`, whose keys that may conflict must have been read. Problems name both
// keys that conflict.
void ReadRounds(JsonFields& fields, Problems& problems, Job& job);

// Adds the keys of guarantees to a canonical job. A newer key at its default is left out, so that
// the texts of older jobs do not change.
void GuaranteesToJson(const GuaranteesSpec& guarantees, nlohmann::json& job);

// Returns the batches (lanes) of a round: the job's `round_batches`, or else `devices`, the devices
// of the workers that the cluster names; 0 for a job without rounds. INVALID_ARGUMENT names the
// key.
absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t devices);

}  // namespace paracord
