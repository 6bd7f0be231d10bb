#include "coordinator/core/early_stop.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paracord {
namespace {

double ValueOf(const EvaluationResult& result, const StopWhen& when) {
  const auto value = result.metrics.find(when.metric);
  return value == result.metrics.end() ? std::numeric_limits<double>::quiet_NaN() : value->second;
}

}  // namespace

std::optional<size_t> BestEvaluation(std::span<const EvaluationResult> evaluations,
                                     const StopWhen& when) {
  std::optional<size_t> best;
  double best_value = 0;
  for (size_t i = 0; i < evaluations.size(); ++i) {
    const double value = ValueOf(evaluations[i], when);
    if (!std::isfinite(value)) continue;
    const double gain = when.larger_is_better ? value - best_value : best_value - value;
    if (best.has_value() && !(gain > when.min_delta)) continue;
    best = i;
    best_value = value;
  }
  return best;
}

std::optional<std::string> WhyStop(std::span<const EvaluationResult> evaluations,
                                   const StopWhen& when) {
  if (evaluations.empty()) return std::nullopt;
  const EvaluationResult& newest = evaluations.back();
  const double value = ValueOf(newest, when);
  const bool reached = (when.at_least.has_value() && value >= *when.at_least) ||
                       (when.at_most.has_value() && value <= *when.at_most);
  if (reached) {
    return absl::StrFormat("stop_when: %s is %.6g after epoch %d", when.metric, value,
                           newest.epoch + 1);
  }
  if (!when.patience.has_value()) return std::nullopt;
  const std::optional<size_t> best = BestEvaluation(evaluations, when);
  const size_t since = evaluations.size() - (best.has_value() ? *best + 1 : 0);
  if (since < std::max<uint64_t>(*when.patience, 1)) return std::nullopt;
  const std::string than = best.has_value() ? absl::StrFormat("better than the %.6g of epoch %d",
                                                              ValueOf(evaluations[*best], when),
                                                              evaluations[*best].epoch + 1)
                                            : "finite";
  return absl::StrFormat("stop_when: in %d evaluations up to epoch %d %s was not %s", since,
                         newest.epoch + 1, when.metric, than);
}

bool HoldsBatches(const Manifest& manifest, uint64_t batches) {
  return std::all_of(manifest.partitions.begin(), manifest.partitions.end(),
                     [&](const ManifestPartition& partition) {
                       return !manifest.variables[partition.spec.variable()].trainable() ||
                              partition.applied + partition.rejected == batches;
                     });
}

}  // namespace paracord
