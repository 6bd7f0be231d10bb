#include "worker/score_variables.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "worker/rows_for_batch.h"
#include "worker/score_records.h"

namespace paracord {
namespace {

constexpr uint64_t kBatchesBetweenStops = 16;

}  // namespace

nlohmann::json Score::MetricsToJson() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

absl::StatusOr<Score> ScoreVariables(Workload& workload, const StoredVariables& stored,
                                     uint64_t seed, uint64_t batch, const std::atomic<bool>& stop) {
  if (workload.test == nullptr) {
    return absl::InvalidArgumentError("the job has no test data (key data.test)");
  }
  ASSIGN_OR_RETURN(const WholeVariables matched,
                   MatchVariables(workload.program->variables(), stored));
  ASSIGN_OR_RETURN(RowsForBatch rows,
                   RowsForBatch::Make(workload.program->variables(), matched, seed));
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
