// The job's key `stages`, which cuts the model into parts that the devices of a worker compute at
// the same time.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

inline constexpr uint32_t kStagesMax = 64;

// Reads `stages` into `job`. Called after the job's model, `accumulate` and the keys about rounds
// have been read. A problem names both keys that conflict. Whoever builds the model checks that the
// model has the layers that `stages` names.
void ReadStages(JsonFields& fields, Job& job);

// Adds the key to the JSON of JobToJson if the model is cut.
void StagesToJson(const StagesSpec& stages, nlohmann::json& job);

}  // namespace paracord
