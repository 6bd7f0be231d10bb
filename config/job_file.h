// Reads job files for callers that can also read Keras' own files, with model and weights in one
// .keras or .h5 file. Pure but for the files.
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

// Whether a path has an ending of files that Keras saves: .keras, .h5 or .hdf5.
bool IsKerasFileName(std::string_view path);

// Returns the text of model.to_json() from a file that Keras saved.
using ModelTextFn = std::function<absl::StatusOr<std::string>(Files&, const std::string& path)>;

// Reads a job file as ReadJobFile of job.h does, but `model_text` reads a model from a Keras file,
// and missing initial_weights are the weights in that file. With a null `model_text`, as in
// daemons, Keras files are refused, and the error says how to convert them.
absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings,
                                const ModelTextFn& model_text);
std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems,
                               const ModelTextFn& model_text);

}  // namespace paracord
