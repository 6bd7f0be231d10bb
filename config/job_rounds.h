// The keys of a job that say how its rounds are formed: `strategy`, `consistency`, `round_batches`,
// `backup`, `recovery`, `reduce` and `cross_device_ops`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Reads them into `job`, of which all that they may not fit has been read. Problems name both keys
// where two do not fit each other.
void ReadRounds(JsonFields& fields, Problems& problems, Job& job);

// Adds the keys of guarantees to a canonical job. One that leaves a newer key out is the same text
// as before there was the key.
void GuaranteesToJson(const GuaranteesSpec& guarantees, nlohmann::json& job);

// Returns the batches of a round of a job, which has as many lanes: what it says, or the number of
// devices that compute on the workers that the cluster names; 0 if the job has no rounds.
// INVALID_ARGUMENT names the key.
absl::StatusOr<uint32_t> RoundBatchesOf(const Job& job, size_t devices);

}  // namespace paracord
