// Reads the model of a job, inline or from the file that the key `model` names. Pure but for the
// files.
#pragma once

#include "common/files.h"
#include "config/job.h"
#include "config/job_data.h"
#include "config/job_file.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the model of the job `document`: the value of its key `model` or, with `files`, the
// contents of the file that the value names; a program has its files inlined. Null after a problem.
nlohmann::json ReadModel(const nlohmann::json& document, Files* files, const BaseDirectory& base,
                         Problems& problems, const ModelTextFn& model_text);

// If `converts` (the caller reads Keras files), sets missing initial_weights to the weights in the
// job's Keras model file. Otherwise adds a problem if initial_weights are a Keras file.
void TakeKerasWeights(const nlohmann::json& document, const BaseDirectory& base, bool converts,
                      Job& job, Problems& problems);

}  // namespace paracord
