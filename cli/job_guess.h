// Guesses a job's data, loss, metrics, optimizer, batch size, epochs and tables from a Keras model
// and the first records of data files. Blocking reads of files, in main's thread.
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
  std::vector<std::string> data;     // absolute paths of the data files
  std::optional<std::string> label;  // the value of --label
};

struct GuessedJob {
  nlohmann::ordered_json job;        // without its key `model`
  std::vector<std::string> guesses;  // lines for people about most of the guesses
};

// An error names what cannot be guessed or read, such as an input that no column fits.
absl::StatusOr<GuessedJob> GuessJob(Files& files, const GuessOf& of);

}  // namespace paracord
