// A job as a user gives it to a command: model and initial weights may be files that Keras saved,
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

// Read a job like ReadJobFile (config/job.h); model and initial weights may also be Keras files.
absl::StatusOr<Job> ReadUserJob(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
std::optional<Job> ReadUserJob(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the variables of a job's Keras model, without reading data. An error has a line for each
// problem of the model, or says that shapes depend on the data.
absl::StatusOr<std::vector<VariableSpec>> VariablesOfModel(const Job& job);

// Opens the job's initial weights (safetensors or Keras) for a model with these variables.
absl::StatusOr<std::unique_ptr<InitialWeights>> OpenInitialWeights(
    Files& files, const Job& job, std::span<const VariableSpec> variables);

// Converts a job's initial weights from a Keras file to a file that daemons read.
class PlacedWeights {
 public:
  // Reads the weights if the job names a Keras file; not if the job `resumes` from a checkpoint,
  // which has the values. Errors name the file, and what does not fit the model.
  static absl::StatusOr<PlacedWeights> Read(Files& files, const Job& job, bool resumes);
  // Writes the weights that were read, if any, into `dir`. Makes the job name the new file if it
  // named a Keras file; otherwise does nothing.
  absl::Status Place(Files& files, const std::string& dir, Job& job) const;

 private:
  bool converted_ = false;              // the job names a Keras file
  std::optional<std::string> weights_;  // nullopt: no weights were read
};

}  // namespace paracord
