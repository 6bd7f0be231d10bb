// Guesses a job's data, loss and tables from a Keras model and the first records of its files, and
// says each guess as a line for people. Blocking reads of files, in main's thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct GuessOf {
  nlohmann::json model;              // from model.to_json()
  std::vector<std::string> data;     // absolute paths
  std::optional<std::string> label;  // name of the label column, if given
};

struct GuessedJob {
  nlohmann::ordered_json job;        // without the model
  std::vector<std::string> guesses;  // lines
};

// An error says which file or input no column was found for.
absl::StatusOr<GuessedJob> GuessJob(Files& files, const GuessOf& of);

}  // namespace paracord
