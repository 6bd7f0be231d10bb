// Reads the model of a job, inline or from the file named by the key. Pure but for the files.
#pragma once

#include "common/files.h"
#include "config/job.h"
#include "config/job_data.h"
#include "config/job_file.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the model of the job's key: the value itself, or (with `files`) the contents of the file
// that it names; null after a problem.
nlohmann::json ReadModel(const nlohmann::json& document, Files* files, const BaseDirectory& base,
                         Problems& problems, const ModelTextFn& model_text);

// Sets missing initial_weights to the weights in the job's Keras model file. If nobody here reads
// Keras files, notes a problem for Keras weights.
void TakeKerasWeights(const nlohmann::json& document, const BaseDirectory& base, bool converts,
                      Job& job, Problems& problems);

}  // namespace paracord
