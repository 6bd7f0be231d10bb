// Chooses, for a command that guesses a job, the columns of a CSV file that are labels: the outputs
// of the model learn to predict them. Pure.
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

// A column with more different texts than this is not taken for a column of classes.
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

// For a model with one output chooses the column `label`. Without a `label` chooses a column that
// has no input's name: one with a common name of labels, else the last whose values fit the loss
// and do not number the records, else the last that does not number the records. For several
// outputs chooses the columns with the names of the outputs. INVALID_ARGUMENT names columns that
// are missing, says that every column is an input, or that `label` is for a model with one output.
absl::StatusOr<GuessedLabels> GuessLabels(const LabelsOf& of);

// Returns the name of the loss that suits an output whose last layer has this activation.
std::string LikelyLoss(const std::string& activation);

}  // namespace paracord
