// The key `stages` of a job, which cuts its model into parts that a worker computes on several
// devices at the same time.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

inline constexpr uint32_t kStagesMax = 64;

// Reads it into `job`, of which all other keys have been read. A problem names both keys where two
// do not fit each other. Whether the model has the layers is for who builds it.
void ReadStages(JsonFields& fields, Job& job);

// Adds the key to a canonical job whose model is cut.
void StagesToJson(const StagesSpec& stages, nlohmann::json& job);

}  // namespace paracord
