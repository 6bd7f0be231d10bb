// Reads the model of a job, from the job itself or from the file that the job's key `model` names.
// Pure but for the files.
#pragma once

#include "common/files.h"
#include "config/job.h"
#include "config/job_data.h"
#include "config/job_file.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the model of the job `document`: the object at its key `model`, or the object in the file
// that `model` names. In a model that is a program, paths of files are replaced by the files'
// contents. With null `files` no file is read: the model must be in the job. Returns JSON's null
// after a problem.
nlohmann::json ReadModel(const nlohmann::json& document, Files* files, const BaseDirectory& base,
                         Problems& problems, const ModelTextFn& model_text);

// If `converts` is true, the caller can read saved models of Keras (.keras, .h5): if the job names
// one as its model, and names no initial_weights, the same file becomes its initial_weights. If
// `converts` is false, adds a problem if initial_weights are a file of Keras.
void TakeKerasWeights(const nlohmann::json& document, const BaseDirectory& base, bool converts,
                      Job& job, Problems& problems);

}  // namespace paracord
