// Chooses the columns of a CSV file that the outputs of a model learn to predict, for a command
// that guesses a job. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/csv_look.h"
#include "common/json_text.h"
#include "config/named_spec.h"
#include "keras/json.h"

namespace paracord {

// A column with more different values than this is not taken for a column of classes.
inline constexpr size_t kClassesMax = 1000;

struct LabelsOf {
  const CsvLook& look;
  const ModelSpec& model;
  const CompileConfig& compiled;
  const std::optional<std::string>& label;  // the value of --label
  const std::string& path;                  // the path of the CSV file, for errors
};

struct GuessedLabels {
  nlohmann::ordered_json spec;       // for the job's key `label`
  std::set<size_t> columns;          // the columns of labels, numbered as in the file
  std::vector<std::string> guesses;  // lines for people
};

// For a model with one output takes the column `label`, else a column with a common name of labels,
// else the last column whose values fit the loss. For several outputs takes the columns with the
// names of the outputs. INVALID_ARGUMENT names the column that is missing, or says that `label` is
// for a single output.
absl::StatusOr<GuessedLabels> GuessLabels(const LabelsOf& of);

// Returns the name of the loss that suits the activation of an output's last layer.
std::string LikelyLoss(const std::string& activation);

}  // namespace paracord
