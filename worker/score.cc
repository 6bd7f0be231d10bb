#include "worker/score.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "worker/evaluate.h"

namespace paracord {
namespace {

constexpr uint64_t kBatchesBetweenStops = 16;

// The checkpoint's values in the order of the model's variables.
absl::StatusOr<std::vector<std::span<const float>>> Match(
    std::span<const VariableSpec> model, std::span<const VariableSpec> variables,
    std::span<const std::vector<float>> values) {
  std::vector<std::span<const float>> matched;
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
    matched.emplace_back(values[static_cast<size_t>(found - variables.begin())]);
  }
  if (matched.size() == variables.size()) return matched;
  return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", variables.size(),
                                                 " variables, the model ", matched.size()));
}

}  // namespace

nlohmann::json Score::MetricsToJson() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

absl::StatusOr<Score> ScoreVariables(Workload& workload, std::span<const VariableSpec> variables,
                                     std::span<const std::vector<float>> values, uint64_t batch,
                                     const std::atomic<bool>& stop) {
  if (workload.test == nullptr) {
    return absl::InvalidArgumentError("the job has no test data (key data.test)");
  }
  ASSIGN_OR_RETURN(const std::vector<std::span<const float>> matched,
                   Match(workload.program->variables(), variables, values));
  const std::vector<std::string>& names = workload.program->metric_names();
  std::vector<MetricState> sums(names.size());
  const uint64_t records = workload.test->records();
  const uint64_t piece = batch * kBatchesBetweenStops;
  for (uint64_t first = 0; first < records; first += piece) {
    if (stop.load()) return absl::CancelledError("asked to stop");
    EvaluationReport report;
    RETURN_IF_ERROR(
        Evaluate(workload, matched, first, std::min(records, first + piece), batch, report));
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
