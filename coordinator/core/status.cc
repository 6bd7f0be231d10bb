// People are told of a job by `paracord status` and by summary.json.
#include <algorithm>
#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

using nlohmann::json;

const char* PhaseName(CoordinatorCore::Phase phase) {
  switch (phase) {
    case CoordinatorCore::Phase::kForming:
      return "forming";
    case CoordinatorCore::Phase::kLoading:
      return "loading";
    case CoordinatorCore::Phase::kTraining:
      return "training";
    case CoordinatorCore::Phase::kEvaluating:
      return "evaluating";
    case CoordinatorCore::Phase::kFinishing:
      return "finishing";
    case CoordinatorCore::Phase::kEnded:
      return "ended";
  }
  return "";
}

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

json EvaluationsJson(std::span<const EvaluationResult> results) {
  json evaluations = json::array();
  for (const EvaluationResult& result : results) {
    evaluations.push_back({{"epoch", result.epoch + 1}, {"metrics", result.metrics}});
  }
  return evaluations;
}

json PsJson(const PsTracker& tracker, int64_t now_ms) {
  json ps_list = json::array();
  for (size_t i = 0; i < tracker.size(); ++i) {
    const Ps& ps = tracker.all()[i];
    json entry = {{"task", absl::StrCat("ps:", i)},
                  {"address", ps.address},
                  {"state", ps.stage == PsStage::kReady  ? (ps.draining ? "draining" : "ready")
                            : ps.stage == PsStage::kAway ? "away"
                                                         : "loading"},
                  {"bytes", ps.description.bytes()},
                  {"pinned_bytes", ps.description.pinned_bytes()},
                  {"waiting_exchanges", ps.description.waiting_exchanges()},
                  {"partitions", ps.description.partitions_size()},
                  {"duplicates", ps.description.duplicates()},
                  {"refused", ps.description.refused()}};
    if (ps.heard_ms > 0) entry["silent_seconds"] = Seconds(now_ms - ps.heard_ms);
    if (!ps.problem.empty()) entry["problem"] = ps.problem;
    if (ps.stage == PsStage::kAway) entry["away_seconds"] = Seconds(now_ms - ps.away_since_ms);
    ps_list.push_back(std::move(entry));
  }
  return ps_list;
}

json WorkersJson(const Sessions& sessions, const SplitTable* table, int64_t now_ms) {
  json workers = json::array();
  for (const auto& [id, session] : sessions.all()) {
    const uint64_t leases = table != nullptr ? table->LeasesOf(id) : 0;
    const double samples_per_second =
        Ratio(static_cast<double>(session.samples), Seconds(now_ms - session.joined_ms));
    workers.push_back({{"task", session.task},
                       {"device", session.device},
                       {"leases", leases},
                       {"computed", session.computed},
                       {"samples_per_second", samples_per_second},
                       {"staleness", Ratio(static_cast<double>(session.staleness_sum),
                                           static_cast<double>(session.computed))},
                       {"silent_seconds", Seconds(now_ms - session.last_seen_ms)},
                       {"resting", session.benched_until_ms > now_ms}});
    if (!session.waits_for.empty()) workers.back()["waits_for"] = session.waits_for;
  }
  return workers;
}

}  // namespace

JobCounters CoordinatorCore::CountersNow(const LedgerCounts& counts) const {
  JobCounters counters = state_.counters;
  counters.ps_recoveries += ps_.recoveries();
  counters.wall_ms += now_ms_ - phases_.started_ms();
  // Batches that workers had not told of when they or a coordinator died were computed all the
  // same.
  counters.computed = std::max(counters.computed, counts.applied_max + counters.duplicates);
  counters.training_ms += phases_.TrainingMs(now_ms_);
  // Both are of the lives that are remembered, so that the rate is one of the same time.
  const uint64_t before = samples_found_.value_or(counts.samples);
  counters.training_samples += counts.samples - std::min(counts.samples, before);
  return counters;
}

CoordinatorCore::LedgerCounts CoordinatorCore::Counts() const {
  LedgerCounts counts;
  if (!job_fixed_) return counts;
  counts.batches = Extent().batches();
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Ps& ps : ps_.all()) {
    for (const PartitionDescription& partition : ps.description.partitions()) {
      if (!partition.has_ledger()) continue;
      least = std::min(least, partition.ledger().applied());
      counts.applied_max = std::max(counts.applied_max, partition.ledger().applied());
      counts.rejected = std::max(counts.rejected, partition.ledger().rejected());
      counts.healthy = counts.healthy && partition.healthy();
    }
  }
  counts.applied_min = least == std::numeric_limits<uint64_t>::max() ? 0 : least;
  // Each applied batch counts once: those of whole epochs, and those of the epoch under way.
  const uint64_t per_epoch = BatchesPerEpoch(state_.plan);
  const uint64_t entered = std::min(counts.applied_min + counts.rejected, counts.batches);
  const uint64_t examples =
      entered / per_epoch * state_.plan.records() + entered % per_epoch * state_.plan.batch();
  counts.samples = examples - std::min(examples, counts.rejected * state_.plan.batch());
  return counts;
}

// Counts by what workers report, which is newer than what is known of the ledgers.
uint64_t CoordinatorCore::BatchesDone(const LedgerCounts& counts) const {
  if (training_.table() == nullptr) return counts.applied_min + counts.rejected;
  return training_.closed() * BatchesPerEpoch(state_.plan) + training_.table()->batches_done();
}

std::string CoordinatorCore::DoneReason() const {
  if (evaluations_.stop().has_value()) return evaluations_.stop()->reason;
  const LedgerCounts counts = Counts();
  if (counts.rejected == 0) return "all batches are applied";
  return absl::StrCat("all batches are done, ", counts.rejected, " of ", counts.batches,
                      " were rejected",
                      failures_.last().empty() ? "" : "; the last failure: " + failures_.last());
}

std::string CoordinatorCore::SummaryText(const std::string& status,
                                         const std::string& reason) const {
  const LedgerCounts counts = Counts();
  const JobCounters counters = CountersNow(counts);
  json metrics = json::object();
  if (!evaluations_.results().empty()) {
    metrics["test"] = evaluations_.results().back().metrics;
  }
  const Throughput::Window recently = throughput_.Recently(now_ms_);
  if (recently.computed > 0) metrics["train"] = {{"loss", recently.loss()}};
  json summary = {
      {"status", status},
      {"reason", reason},
      {"epochs", training_.closed()},
      {"wall_seconds", Seconds(counters.wall_ms)},
      {"first_step_seconds", nullptr},
      {"samples", counts.samples},
      {"computed", counters.computed},
      {"duplicates", counters.duplicates},
      {"samples_per_second",
       Ratio(static_cast<double>(counters.training_samples), Seconds(counters.training_ms))},
      {"metrics", metrics},
      {"evaluations", EvaluationsJson(evaluations_.results())},
      {"ledger",
       {{"batches", counts.batches},
        {"applied_min", counts.applied_min},
        {"applied_max", counts.applied_max},
        {"rejected", counts.rejected}}},
      {"recoveries",
       {{"worker", counters.worker_recoveries},
        {"ps", counters.ps_recoveries},
        {"coordinator", counters.coordinator_recoveries}}},
      {"checkpoints", {{"count", counters.checkpoints}, {"last_step", 0}, {"bytes", 0}}}};
  if (const EvaluationResult* const best = evaluations_.Best()) {
    summary["best"] = {{"epoch", best->epoch + 1},
                       {"metric", job_.stop_when->metric},
                       {"value", best->metrics.at(job_.stop_when->metric)}};
    const Manifest* const checkpoint = BestCheckpoint();
    const bool kept = job_.stop_when->restore_best && checkpoint != nullptr;
    if (kept) summary["best"]["checkpoint"] = checkpoint->name.ToString();
  }
  if (counters.first_step_ms >= 0) summary["first_step_seconds"] = Seconds(counters.first_step_ms);
  if (const Manifest* const newest = checkpoints_.newest()) {
    uint64_t bytes = 0;
    for (const ManifestFile& file : newest->files) bytes += file.bytes;
    summary["checkpoints"]["last_step"] = newest->name.step;
    summary["checkpoints"]["bytes"] = bytes;
  }
  return TextOf(summary, 2) + "\n";
}

Chart CoordinatorCore::TrainingChart(int64_t now_ms) const {
  Chart chart{static_cast<int64_t>(BatchesDone(Counts())), {}};
  const Throughput::Window recently = throughput_.Recently(now_ms);
  if (recently.computed > 0) {
    chart.values = {{"train/loss", recently.loss()}, {"cluster/staleness", recently.staleness()}};
  }
  chart.values.emplace_back(
      "cluster/samples_per_second",
      Ratio(static_cast<double>(recently.samples), Seconds(recently.length_ms)));
  chart.values.emplace_back("cluster/workers", static_cast<double>(sessions_.all().size()));
  return chart;
}

std::vector<Chart> CoordinatorCore::EvaluationCharts(size_t index) const {
  std::vector<Chart> charts;
  for (; index < evaluations(); ++index) {
    const EvaluationResult& result = evaluations_.told()[index];
    Chart chart{static_cast<int64_t>((result.epoch + 1) * BatchesPerEpoch(state_.plan)), {}};
    for (const auto& [name, value] : result.metrics) {
      chart.values.emplace_back("test/" + name, value);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

// Why nothing moves, in a line; empty if it does.
std::string CoordinatorCore::Waiting(int64_t now_ms) const {
  if (phases_.ended()) return "";
  if (phases_.training() && ps_.AllAre(PsStage::kReady) && !sessions_.empty()) {
    return Stalls(now_ms);
  }
  if (!generation_.problem().empty()) return generation_.problem();
  const bool missing =
      (!job_fixed_ && writer_.problem().empty()) ||
      (sessions_.empty() && (ps_.AnyIs(PsStage::kAway) || ps_.AllAre(PsStage::kReady)));
  return missing ? MissingTasks() : WaitReason();
}

std::string CoordinatorCore::StatusJson(int64_t now_ms) const {
  const LedgerCounts counts = Counts();
  const JobCounters counters = CountersNow(counts);
  const Throughput::Window recently = throughput_.Recently(now_ms);
  const std::optional<int64_t> counted_ms = throughput_.counted_ms();
  json status = {
      {"job", job_.name},
      {"run_id", state_.run_id},
      {"phase", PhaseName(phases_.now())},
      {"generation", generation_.claimed()},
      {"coordinator", options_.boot_id},
      {"dir", options_.ShownDir()},
      {"epoch", training_.closed() + (training_.table() != nullptr ? 1 : 0)},
      {"epochs", job_fixed_ ? Extent().epochs() : job_.epochs},
      {"batches", counts.batches},
      {"batches_done", BatchesDone(counts)},
      {"applied_min", counts.applied_min},
      {"applied_max", counts.applied_max},
      {"rejected", counts.rejected},
      {"healthy", counts.healthy},
      {"loss", recently.computed > 0 ? json(recently.loss()) : json()},
      {"samples_per_second",
       Ratio(static_cast<double>(recently.samples), Seconds(recently.length_ms))},
      {"last_batch_seconds", counted_ms.has_value() ? json(Seconds(now_ms - *counted_ms)) : json()},
      {"wall_seconds", Seconds(counters.wall_ms)},
      {"up_seconds", Seconds(now_ms - phases_.started_ms())},
      {"ps", PsJson(ps_, now_ms)},
      {"workers", WorkersJson(sessions_, training_.table(), now_ms)},
      {"recoveries",
       {{"worker", counters.worker_recoveries},
        {"ps", counters.ps_recoveries},
        {"coordinator", counters.coordinator_recoveries}}}};
  const Manifest* const usable = checkpoints_.Usable();
  status["checkpoint"] = {
      {"last", usable == nullptr ? json() : json(usable->name.ToString())},
      {"running", rounds_.running()},
      {"problem", rounds_.problem().empty() ? writer_.problem() : rounds_.problem()},
      {"refused", checkpoints_.refused()}};
  status["evaluations"] = EvaluationsJson(evaluations_.told());
  const std::string waiting = Waiting(now_ms);
  if (!waiting.empty()) status["waiting"] = waiting;
  if (!refusals_.by_task().empty()) status["refused"] = refusals_.by_task();
  if (!failures_.last().empty()) status["last_failure"] = failures_.last();
  return TextOf(status);
}

}  // namespace paracord
