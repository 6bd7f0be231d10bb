#include "cli/scale_doubts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/csv_look.h"
#include "cli/input_look.h"
#include "keras/json.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr double kLargeFrom = 100;    // ages and percentages train as they are
constexpr uint64_t kReadAtOnce = 50;  // records
constexpr size_t kColumnsLookedAt = 500;

// A feature of the job.
struct UnscaledColumn {
  std::string path;  // path of the feature in the job
  std::string name;
  ColumnLook look;  // only the numbers
};

// Whether a Dense gets the input's numbers unscaled.
bool TakesAsTheyAre(const InputLook& input) {
  return input.dense && !input.scaled && !input.looks_up && input.dtype != "string" &&
         !absl::StrContains(input.dtype, "int");
}

// The input that a feature names, or the model's only one; null if there is none.
const InputLook* InputOf(const json& feature, const ModelSpec& model,
                         const std::vector<InputLook>& inputs) {
  const auto named = feature.is_object() ? feature.find("input") : feature.end();
  if (!feature.is_object() || named == feature.end() || !named->is_string()) {
    return inputs.size() == 1 ? &inputs[0] : nullptr;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (model.inputs[i].Is(named->get<std::string>())) return &inputs[i];
  }
  return nullptr;
}

// The columns of numbers, by name, that the job does not scale.
std::vector<UnscaledColumn> UnscaledColumns(const json& features, const ModelSpec& model) {
  const std::vector<InputLook> inputs = LookAtInputs(model);
  const json list = features.is_array() ? features : json::array({features});
  std::vector<UnscaledColumn> columns;
  for (size_t i = 0; i < list.size() && columns.size() < kColumnsLookedAt; ++i) {
    const json& feature = list[i];
    const json column = feature.is_object() ? feature.value("column", json()) : feature;
    if (!column.is_string() || absl::StrContains(column.get<std::string>(), "*")) continue;
    bool scaled = false;
    for (const char* key : {"mean", "std", "log", "separator"}) {
      scaled = scaled || (feature.is_object() && feature.contains(key));
    }
    const bool number = !feature.is_object() || feature.value("kind", json("numeric")) == "numeric";
    const InputLook* input = InputOf(feature, model, inputs);
    if (scaled || !number || input == nullptr || !TakesAsTheyAre(*input)) continue;
    columns.push_back(
        {features.is_array() ? absl::StrCat("data.train.features[", i, "]") : "data.train.features",
         column.get<std::string>(),
         {}});
  }
  return columns;
}

// Reads the columns' numbers from the first readable records.
void ReadNumbers(const DataSource& train, std::vector<UnscaledColumn>& columns) {
  std::vector<std::string> names;
  for (const UnscaledColumn& column : columns) names.push_back(column.name);
  const uint64_t end = std::min<uint64_t>(train.records(), kRecordsLookedAt);
  for (uint64_t first = 0; first < end; first += kReadAtOnce) {
    std::vector<uint64_t> records(std::min(kReadAtOnce, end - first));
    std::iota(records.begin(), records.end(), first);
    const auto texts = train.Fields(records, names);
    if (!texts.ok()) return;
    for (size_t i = 0; i < texts->size(); ++i) {
      double number = 0;
      if (!absl::SimpleAtod((*texts)[i], &number) || !std::isfinite(number)) continue;
      columns[i % columns.size()].look.numbers.push_back(number);
    }
  }
}

}  // namespace

std::vector<std::string> ScaleDoubts(const Job& job, const DataSource& train) {
  std::vector<std::string> doubts;
  const json& options = job.train.options;
  if (job.train.format != "csv" || !options.contains("features")) return doubts;
  const absl::StatusOr<ModelSpec> model = ReadKerasModel(job.model);
  if (!model.ok()) return doubts;
  std::vector<UnscaledColumn> columns = UnscaledColumns(options["features"], *model);
  if (columns.empty()) return doubts;
  ReadNumbers(train, columns);
  for (const UnscaledColumn& column : columns) {
    const std::vector<double>& numbers = column.look.numbers;
    if (numbers.empty() || column.look.Deviation() == 0) continue;
    const auto [least, most] = std::ranges::minmax(numbers);
    if (std::max(-least, most) <= kLargeFrom) continue;
    const double std = column.look.Deviation();
    doubts.push_back(absl::StrFormat(
        "%s: the first values of column %s are from %.12g to %.12g, and nothing scales them before "
        "a "
        "Dense layer, which hardly learns from such numbers: \"mean\": %.12g, \"std\": %.12g would",
        column.path, column.name, least, most, RoundedBy(column.look.Mean(), std),
        RoundedBy(std, std)));
  }
  return doubts;
}

}  // namespace paracord
