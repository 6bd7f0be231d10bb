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

// A column of more words is no column of classes.
inline constexpr size_t kClassesMax = 1000;

struct LabelsOf {
  const CsvLook& look;
  const ModelSpec& model;
  const CompileConfig& compiled;
  const std::optional<std::string>& label;  // what --label says
  const std::string& path;                  // of the file, for errors
};

struct GuessedLabels {
  nlohmann::ordered_json spec;       // for the job's key `label`
  std::set<size_t> columns;          // indices in the file
  std::vector<std::string> guesses;  // lines for people
};

// Takes for one output the column `label`, else one of a usual name, else the last that fits; for
// each of several outputs the column of its name. INVALID_ARGUMENT says which column there is not.
absl::StatusOr<GuessedLabels> GuessLabels(const LabelsOf& of);

// Returns the name of the loss that suits the activation of an output's last layer.
std::string LikelyLoss(const std::string& activation);

}  // namespace paracord
