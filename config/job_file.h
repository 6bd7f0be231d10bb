// Reads job files for callers that can also read a Keras file: a .keras or .h5 file with a model
// and its weights. Pure but for the files.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Whether a path has the ending of a Keras file: .keras, .h5 or .hdf5.
bool IsKerasFileName(std::string_view path);

// Returns the text of model.to_json() from a Keras file.
using ModelTextFn = std::function<absl::StatusOr<std::string>(Files&, const std::string& path)>;

// Reads a job file as ReadJobFile of job.h does. A model may also be in a Keras file, which
// `model_text` reads; if the job names no initial_weights, they are then the weights in that file.
// If `model_text` is null, as in daemons, Keras files are refused, and the error says how to
// convert them.
absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings,
                                const ModelTextFn& model_text);
std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems,
                               const ModelTextFn& model_text);

}  // namespace paracord
