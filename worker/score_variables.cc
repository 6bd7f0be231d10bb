#include "worker/score_variables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "worker/score_records.h"
#include "worker/whole_rows.h"

namespace paracord {
namespace {

constexpr uint64_t kBatchesBetweenStops = 16;

// The checkpoint's values and ids in the order of the model's variables.
absl::StatusOr<WholeVariables> Match(std::span<const VariableSpec> model,
                                     std::span<const VariableSpec> variables,
                                     std::span<const std::vector<float>> values,
                                     const VariableIds& ids) {
  WholeVariables matched;
  for (const VariableSpec& variable : model) {
    const auto found = std::find_if(
        variables.begin(), variables.end(),
        [&](const VariableSpec& candidate) { return candidate.name() == variable.name(); });
    if (found == variables.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint has no variable ", variable.name(), " of the model"));
    }
    if (!std::equal(found->shape().begin(), found->shape().end(), variable.shape().begin(),
                    variable.shape().end())) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint's variable ", variable.name(),
                                                     " has another shape than the model's"));
    }
    if (IsGrowing(*found) != IsGrowing(variable)) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint's variable ", variable.name(),
                                                     " is another kind of table than the model's"));
    }
    const auto place = static_cast<size_t>(found - variables.begin());
    matched.values.emplace_back(values[place]);
    matched.ids.push_back(place < ids.size() ? std::span(ids[place]) : std::span<const uint64_t>());
  }
  if (matched.values.size() == variables.size()) return matched;
  return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", variables.size(),
                                                 " variables, the model ", matched.values.size()));
}

}  // namespace

nlohmann::json Score::MetricsToJson() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

absl::StatusOr<Score> ScoreVariables(Workload& workload, std::span<const VariableSpec> variables,
                                     std::span<const std::vector<float>> values,
                                     const VariableIds& ids, uint64_t seed, uint64_t batch,
                                     const std::atomic<bool>& stop) {
  if (workload.test == nullptr) {
    return absl::InvalidArgumentError("the job has no test data (key data.test)");
  }
  ASSIGN_OR_RETURN(const WholeVariables matched,
                   Match(workload.program->variables(), variables, values, ids));
  ASSIGN_OR_RETURN(RowsOfWhole rows,
                   RowsOfWhole::Make(workload.program->variables(), matched, seed));
  const std::vector<std::string>& names = workload.program->metric_names();
  std::vector<MetricState> sums(names.size());
  const uint64_t records = workload.test->records();
  const uint64_t range = batch * kBatchesBetweenStops;
  for (uint64_t first = 0; first < records; first += range) {
    if (stop.load()) return absl::CancelledError("asked to stop");
    EvaluationReport report;
    RETURN_IF_ERROR(
        Evaluate(workload, rows, first, std::min(records, first + range), batch, report));
    for (size_t i = 0; i < sums.size(); ++i) {
      MergeMetric(report.metrics(static_cast<int>(i)), sums[i]);
    }
  }
  Score score;
  score.examples = records;
  for (size_t i = 0; i < sums.size(); ++i) {
    score.metrics.emplace_back(names[i], MetricValue(sums[i]));
  }
  return score;
}

}  // namespace paracord
