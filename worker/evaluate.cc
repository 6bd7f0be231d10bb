#include "worker/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/status_macros.h"

namespace paracord {

absl::Status Evaluate(Workload& workload, ConstTensors values, uint64_t first, uint64_t end,
                      uint64_t batch, EvaluationReport& report) {
  if (workload.test == nullptr || end > workload.test->records() || first > end || batch == 0) {
    return absl::InvalidArgumentError("the test data does not have the records to evaluate");
  }
  std::vector<MetricState> states(workload.program->metric_names().size());
  std::vector<uint64_t> records;
  Batch examples;
  for (uint64_t begin = first; begin < end; begin += batch) {
    records.resize(std::min(batch, end - begin));
    std::iota(records.begin(), records.end(), begin);
    RETURN_IF_ERROR(workload.test->Read(records, examples));
    RETURN_IF_ERROR(workload.program->Evaluate(examples, values, states));
  }
  report.set_examples(end - first);
  for (MetricState& state : states) *report.add_metrics() = std::move(state);
  return absl::OkStatus();
}

}  // namespace paracord
