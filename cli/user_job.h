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

// Read a job like ReadJobFile (config/job.h), but also models and weights in files of Keras.
absl::StatusOr<Job> ReadUserJob(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
std::optional<Job> ReadUserJob(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the variables of a job's Keras model, without reading data. The error has a line for each
// problem of the model, or says that shapes depend on the data.
absl::StatusOr<std::vector<VariableSpec>> VariablesOfModel(const Job& job);

// Opens the job's initial weights for a model with these variables: a safetensors file or one of
// Keras.
absl::StatusOr<std::unique_ptr<InitialWeights>> OpenInitialWeights(
    Files& files, const Job& job, std::span<const VariableSpec> variables);

// Converts initial weights in a file of Keras to a file that daemons read.
class PlacedWeights {
 public:
  // Reads the weights if the job names a file of Keras, unless the job `resumes` from a checkpoint,
  // which has the values. Errors name the file, and what does not fit the model.
  static absl::StatusOr<PlacedWeights> Read(Files& files, const Job& job, bool resumes);
  // Writes the converted weights into `dir`, and makes the job name the new file. Does nothing if
  // the job names no file of Keras.
  absl::Status Place(Files& files, const std::string& dir, Job& job) const;

 private:
  bool converted_ = false;              // the job names a file of Keras
  std::optional<std::string> weights_;  // nullopt: there are none to convert
};

}  // namespace paracord
