// The job's key `stages`, which cuts the model into parts that a worker computes on several devices
// at once.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

inline constexpr uint32_t kStagesMax = 64;

// Reads `stages` into `job`, after all other keys. A problem names both keys that conflict. Whoever
// builds the model checks that it has the layers.
void ReadStages(JsonFields& fields, Job& job);

// Adds the key to a canonical job whose model is cut.
void StagesToJson(const StagesSpec& stages, nlohmann::json& job);

}  // namespace paracord
