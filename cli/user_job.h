// A job as a person gives it to a command: its model and its initial weights may be files that
// Keras saved, which daemons do not read. Blocking, in main's thread.
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

// These are ReadJobFile with files of Keras.
absl::StatusOr<Job> ReadUserJob(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
std::optional<Job> ReadUserJob(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the variables of a job's Keras model as far as its file says their shapes, without data.
// The error has a line for each problem of the model.
absl::StatusOr<std::vector<VariableSpec>> VariablesOfModel(const Job& job);

// Opens the initial weights of a job whose model has these variables, wherever they are.
absl::StatusOr<std::unique_ptr<InitialWeights>> OpenInitialWeights(
    Files& files, const Job& job, std::span<const VariableSpec> variables);

// What daemons need of a job whose initial weights are in a file of Keras.
class PlacedWeights {
 public:
  // Reads the weights, unless the job begins with others or `resumes`. Errors name the file and
  // what its weights do not fit.
  static absl::StatusOr<PlacedWeights> Read(Files& files, const Job& job, bool resumes);
  // Writes them into the job's directory, and lets the job name that file.
  absl::Status Place(Files& files, const std::string& dir, Job& job) const;

 private:
  bool converted_ = false;              // the job names a file of Keras
  std::optional<std::string> weights_;  // none if the job resumes
};

}  // namespace paracord
