#include "cli/cost_lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "config/step_cost.h"

namespace paracord {
namespace {

constexpr double kWarnedFrom = 1.3;  // times the speed of the running strategy

double Ms(const nlohmann::json& of, const char* key) { return 1000 * of.value(key, 0.0); }

std::string WayText(const nlohmann::json& way) {
  const std::string strategy = way.value("strategy", "");
  const uint64_t ps = way.value("ps", uint64_t{0});
  const std::string where = ps > 0 || strategy != "parameter_server" ? "" : " on the workers alone";
  return absl::StrCat(strategy, where, " (", way.value("consistency", ""), ")");
}

std::string RateOf(const nlohmann::json& way) {
  return absl::StrFormat("%.4g", way.value("batches_per_second", 0.0));
}

}  // namespace

std::vector<std::string> CostLines(const nlohmann::json& status) {
  const nlohmann::json cost = status.value("cost", nlohmann::json::object());
  if (!cost.contains("measured") || !cost.contains("predicted")) return {};
  const nlohmann::json& measured = cost.at("measured");
  std::vector<std::string> lines = {absl::StrFormat(
      "a batch takes %.3g ms to compute, %.3g ms to exchange%s and %.3g ms of waiting for others: "
      "%.4g batches/s of %d",
      Ms(measured, "compute_seconds"), Ms(measured, "exchange_seconds"),
      cost.value("overlap", false) ? " (what overlap does not hide)" : "",
      Ms(measured, "waited_seconds"), measured.value("batches_per_second", 0.0),
      measured.value("workers", uint64_t{0}))};
  lines.back() += measured.value("workers", uint64_t{0}) == 1 ? " worker" : " workers";
  std::vector<std::string> ways;
  nlohmann::json runs;
  for (const nlohmann::json& way : cost.at("predicted")) {
    const bool now = way.value("runs", false);
    ways.push_back(absl::StrCat(WayText(way), " ", RateOf(way), now ? ", which runs" : ""));
    if (now) runs = way;
  }
  if (ways.size() < 2) return lines;  // the cluster has no choice
  lines.push_back("predicted batches/s: " + absl::StrJoin(ways, "; "));
  if (runs.is_null() || cost.value("overlap", false)) return lines;
  const double rate = runs.value("batches_per_second", 0.0);
  for (const nlohmann::json& way : cost.at("predicted")) {  // the fastest first
    const double times = rate > 0 ? way.value("batches_per_second", 0.0) / rate : 0;
    if (times < kWarnedFrom) break;
    // A job that trains in synchronous rounds is not advised to give them up.
    if (runs.value("consistency", "") == "sync" && way.value("consistency", "") != "sync") continue;
    lines.push_back(absl::StrFormat("warning: %s is predicted to be %.1f times as fast as %s",
                                    WayText(way), times, WayText(runs)));
    break;
  }
  return lines;
}

std::string StepText(const Job& job, std::span<const VariableSpec> variables, int64_t multiply_adds,
                     uint64_t holders) {
  uint64_t bytes = 0;
  for (const VariableSpec& variable : variables) {
    if (!variable.trainable() || variable.has_table()) continue;
    uint64_t elements = 1;
    for (const uint64_t axis : variable.shape()) elements *= axis;
    bytes += elements * sizeof(float);
  }
  const bool nodes = IsWithoutPs(job.guarantees.strategy);
  const bool twice = !nodes && job.guarantees.sync() && job.partitioner.copies > 0;
  const TrainingWay way{"", job.guarantees.sync(), nodes ? 0 : static_cast<size_t>(holders)};
  const std::string arithmetic =
      multiply_adds > 0 ? absl::StrFormat("%.3g multiply-adds x %d examples / speed",
                                          static_cast<double>(multiply_adds), job.batch)
                        : absl::StrFormat("%d examples / speed", job.batch);
  return absl::StrCat(
      "step: waves x (compute + exchange). compute = ", arithmetic, "; exchange = ", twice ? 3 : 2,
      " x ", HumanBytes(bytes), twice ? " (pushed to both ps of each partition)" : "",
      " / bandwidth + trips x latency + update",
      nodes ? absl::StrFormat(", of which %.3g counts, since a share is the worker's own",
                              ExchangedShare(way, static_cast<size_t>(holders)))
            : "",
      job.overlap ? "; overlap hides the smaller of the two" : "",
      ". `paracord train` measures both and predicts the other strategies");
}

}  // namespace paracord
