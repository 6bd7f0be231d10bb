// The job's key `stages`, which cuts the model into parts that the devices of a worker compute at
// the same time.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

inline constexpr uint32_t kStagesMax = 64;

// Reads `stages` into `job`. Called after the job's model, `accumulate` and the keys about rounds
// have been read into `job`. A problem names the keys that conflict. Whether the model has the
// layers that `stages` names is checked when the model is built.
void ReadStages(JsonFields& fields, Job& job);

// Adds `stages` to `job`, the JSON of JobToJson, if the model is cut.
void StagesToJson(const StagesSpec& stages, nlohmann::json& job);

}  // namespace paracord
