// A job as a user gives it to a command: model and initial weights may be files saved by Keras,
// which daemons do not read. Blocking, in main's thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/keras_file.h"
#include "common/files.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "store/initial_weights.h"

namespace paracord {

// ReadJobFile with support for files of Keras.
absl::StatusOr<Job> ReadUserJob(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
std::optional<Job> ReadUserJob(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the variables of a job's Keras model as far as its file says their shapes, without data.
// The error has a line for each problem of the model.
absl::StatusOr<std::vector<VariableSpec>> VariablesOfModel(const Job& job);

// Opens the initial weights for a model with these variables, from any supported file.
absl::StatusOr<std::unique_ptr<InitialWeights>> OpenInitialWeights(
    Files& files, const Job& job, std::span<const VariableSpec> variables);

// Converts initial weights in a Keras file for daemons.
class PlacedWeights {
 public:
  // Reads the weights if the job takes them from a Keras file, unless `resumes`. Errors name the
  // file and the misfit.
  static absl::StatusOr<PlacedWeights> Read(Files& files, const Job& job, bool resumes);
  // Writes the weights into the job's directory, and makes the job name that file.
  absl::Status Place(Files& files, const std::string& dir, Job& job) const;

 private:
  bool converted_ = false;              // the job names a file of Keras
  std::optional<std::string> weights_;  // none if the job resumes
};

}  // namespace paracord
