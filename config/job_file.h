// Reads job files for callers who can also read what Keras saved: a model and weights in one .keras
// or .h5 file. Pure but for the files.
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

// Whether a path is named as Keras names the files that it saves: .keras, .h5 or .hdf5.
bool IsKerasFileName(std::string_view path);

// Returns the model in a file that Keras saved, as the text of model.to_json().
using ModelTextFn = std::function<absl::StatusOr<std::string>(Files&, const std::string& path)>;

// These are ReadJobFile of job.h, but a model whose name is a Keras file's is read by `model_text`,
// and initial_weights are then those of that file unless the job names others. If `model_text` is
// null, as for daemons, such files are refused, and the error says how to convert them.
absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings,
                                const ModelTextFn& model_text);
std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems,
                               const ModelTextFn& model_text);

}  // namespace paracord
