#include "coordinator/core/report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_text.h"
#include "config/data_plan.h"
#include "coordinator/core/cost_status.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/round_status.h"
#include "coordinator/core/stall_report.h"
#include "coordinator/core/table_status.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"

namespace paracord {
namespace {

using nlohmann::json;

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForming:
      return "forming";
    case Phase::kLoading:
      return "loading";
    case Phase::kTraining:
      return "training";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kFinishing:
      return "finishing";
    case Phase::kEnded:
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

// The closed epochs, each with the result of its evaluation.
json HistoryJson(const JobView& job, std::span<const EvaluationResult> results, uint64_t from) {
  json history = job.history.Epochs(from, job.record.metric_names());
  auto result = results.begin();
  for (json& entry : history) {
    const uint64_t epoch = entry.at("epoch").get<uint64_t>() - 1;
    while (result != results.end() && result->epoch < epoch) ++result;
    if (result != results.end() && result->epoch == epoch) entry["test"] = result->metrics;
  }
  return history;
}

// Says how many records were left out as unreadable; null if there are none.
json BadRecordsJson(const EpochHistory& history) {
  if (history.bad_records() == 0) return nullptr;
  return {{"records", history.bad_records_most()},
          {"left_out", history.bad_records()},
          {"first", history.bad_records_named()}};
}

// Adds what the status says of epochs from number `from` on, of batches computed again, and of
// unreadable records.
void AddEpochs(const JobView& job, uint64_t from, uint64_t batches_done, json& status) {
  if (from != kNoHistory) status["history"] = HistoryJson(job, job.evaluations.told(), from);
  status["epochs_found"] = job.history.found();
  if (const auto means = job.history.TrainSoFar(job.record.metric_names()); !means.empty()) {
    status["train"] = means;
  }
  if (const uint64_t again = job.training.again_to(); batches_done < again) {
    status["again_to"] = again;
  }
  if (json bad = BadRecordsJson(job.history); !bad.is_null()) {
    status["bad_records"] = std::move(bad);
  }
}

// Adds the job's strategy and, where known, the cost of each strategy.
void AddStrategy(const JobView& job, json& to) {
  to["strategy"] = StrategyJson(job);
  if (json cost = CostJson(job); !cost.is_null()) to["cost"] = std::move(cost);
}

// The newest results on the test data and in training: of the newest epoch, or else of the recent
// past.
json NewestMetrics(std::span<const EvaluationResult> results, const json& history,
                   const Throughput::Window& recently) {
  json metrics = json::object();
  if (!results.empty()) metrics["test"] = results.back().metrics;
  if (recently.computed > 0) metrics["train"] = {{"loss", recently.loss()}};
  if (!history.empty() && !history.back().at("train").empty()) {
    metrics["train"] = history.back().at("train");
  }
  return metrics;
}

// Describes the newest restorable checkpoint; its age is computed from its time.
json CheckpointJson(const Manifest* usable) {
  if (usable == nullptr) return {{"last", nullptr}};
  uint64_t bytes = 0;
  for (const ManifestFile& file : usable->files) bytes += file.bytes;
  return {{"last", usable->name.ToString()},
          {"step", usable->name.step},
          {"bytes", bytes},
          {"created_unix_ms", usable->created_unix_ms}};
}

json PsJson(const JobView& job, int64_t now_ms) {
  const PsTracker& tracker = job.ps;
  // Earlier, timeouts.start_s bounds the wait for all ps together.
  const bool lives = job.phases.formed() || tracker.AnyHoldsRun();
  json ps_list = json::array();
  for (size_t i = 0; i < tracker.size(); ++i) {
    const Ps& ps = tracker.all()[i];
    json entry = {{"task", absl::StrCat("ps:", i)},
                  {"address", ps.address},
                  {"state", ps.state == PsState::kReady  ? (ps.draining ? "draining" : "ready")
                            : ps.state == PsState::kAway ? "away"
                                                         : "loading"},
                  {"bytes", ps.description.bytes()},
                  {"pinned_bytes", ps.description.pinned_bytes()},
                  {"waiting_exchanges", ps.description.waiting_exchanges()},
                  {"partitions", ps.description.partitions_size()},
                  {"duplicates", ps.description.duplicates()},
                  {"refused", ps.description.refused()}};
    if (job.options.nodes) entry["node"] = absl::StrCat("worker:", i);
    for (const MemoryHeld& held : ps.description.memory()) {
      entry["memory"][held.holder()] = {{"bytes", held.bytes()}, {"bytes_max", held.bytes_max()}};
    }
    if (ps.description.memory_limit() > 0) {
      entry["memory_limit"] = ps.description.memory_limit();
    }
    if (ps.heard_ms > 0) entry["silent_seconds"] = Seconds(now_ms - ps.heard_ms);
    if (!ps.problem.empty()) entry["problem"] = ps.problem;
    if (ps.state == PsState::kAway) {
      entry["away_seconds"] = Seconds(now_ms - ps.away_since_ms);
      const bool needed = tracker.Needed(static_cast<uint32_t>(i));
      entry["needed"] = needed;
      if (needed && lives) entry["away_seconds_max"] = job.options.job.timeouts.ps_return_s;
    }
    ps_list.push_back(std::move(entry));
  }
  return ps_list;
}

json WorkersJson(const Sessions& sessions, const SplitTable* table, int64_t now_ms) {
  json workers = json::array();
  for (const auto& [id, session] : sessions.all()) {
    const uint64_t leases = table != nullptr ? table->LeasesOf(id) : 0;
    const double samples_per_second =
        Ratio(static_cast<double>(session.work.samples), Seconds(now_ms - session.joined_ms));
    workers.push_back({{"task", session.task},
                       {"device", session.device},
                       {"leases", leases},
                       {"computed", session.work.computed},
                       {"samples_per_second", samples_per_second},
                       {"staleness", Ratio(static_cast<double>(session.work.staleness_sum),
                                           static_cast<double>(session.work.computed))},
                       {"silent_seconds", Seconds(now_ms - session.last_seen_ms)},
                       {"resting", session.backoff_until_ms > now_ms}});
    if (table != nullptr && table->has_lanes()) {
      const double seconds = Seconds(now_ms - session.joined_ms);
      workers.back()["waited_share"] = std::min(Ratio(session.work.waited_seconds, seconds), 1.0);
    }
    if (!session.waits_for.empty()) workers.back()["waits_for"] = session.waits_for;
  }
  return workers;
}

// Adds the layout version, the move and the copies.
void AddLayout(const JobView& job, int64_t now_ms, json& status) {
  if (job.record.layout().has_value()) status["layout_version"] = job.record.layout()->version;
  if (json move = job.move.ToJson(now_ms); !move.is_null()) status["move"] = std::move(move);
  if (json copies = CopiesJson(job); !copies.is_null()) status["copies"] = std::move(copies);
}

}  // namespace

Report::Report(const JobView& job, int64_t now_ms)
    : job_(job),
      now_ms_(now_ms),
      ledger_(CountsOf(job)),
      recently_(job.throughput.Recently(now_ms)),
      counters_(job.record.counters()) {
  counters_.ps_recoveries += job.ps.recoveries();
  counters_.wall_ms += now_ms - job.phases.started_ms();
  // Batches that workers computed but had not reported, when they or a coordinator died, count as
  // computed.
  counters_.computed = std::max(counters_.computed, ledger_.applied_max + counters_.duplicates);
  counters_.training_ms += job.phases.TrainingMs(now_ms);
  // The samples found at the start are subtracted, so training_samples and training_ms cover one
  // period.
  const uint64_t before = job.samples_found.value_or(ledger_.samples);
  counters_.training_samples += ledger_.samples - std::min(ledger_.samples, before);
}

Report::LedgerCounts Report::CountsOf(const JobView& job) {
  LedgerCounts counts;
  if (!job.record.fixed()) return counts;
  counts.batches = job.Extent().batches();
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Ps* ps : job.ps.Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      if (!partition.has_ledger()) continue;
      least = std::min(least, partition.ledger().applied());
      counts.applied_max = std::max(counts.applied_max, partition.ledger().applied());
      counts.rejected = std::max(counts.rejected, partition.ledger().rejected());
      counts.healthy = counts.healthy && partition.healthy();
    }
  }
  counts.applied_min = least == std::numeric_limits<uint64_t>::max() ? 0 : least;
  // Each applied batch counts once: those of whole epochs, and those of the epoch under way.
  const DataPlan& plan = job.record.plan();
  const uint64_t per_epoch = BatchesPerEpoch(plan);
  const uint64_t entered = std::min(counts.applied_min + counts.rejected, counts.batches);
  const uint64_t examples =
      entered / per_epoch * ExamplesPerEpoch(plan) + entered % per_epoch * plan.batch();
  counts.samples = examples - std::min(examples, counts.rejected * plan.batch());
  return counts;
}

// Counts by workers' reports, which are newer than the known state of the ledgers.
uint64_t Report::BatchesDone() const {
  const SplitTable* const table = job_.training.table();
  if (table == nullptr) return ledger_.applied_min + ledger_.rejected;
  return job_.training.closed() * BatchesPerEpoch(job_.record.plan()) + table->batches_done();
}

// A window without new batches stays open while training is parked: its rate is then out of date.
double Report::SamplesPerSecond() const {
  constexpr int64_t kOldMs = 5000;
  constexpr int64_t kBatchesMissed = 4;
  const auto batches = static_cast<int64_t>(std::max<uint64_t>(recently_.computed, 1));
  const int64_t old_ms = std::max(kOldMs, kBatchesMissed * recently_.length_ms / batches);
  if (now_ms_ - job_.throughput.counted_ms().value_or(now_ms_) > old_ms) return 0;
  return Ratio(static_cast<double>(recently_.samples), Seconds(recently_.length_ms));
}

std::string Report::DoneReason() const {
  if (job_.evaluations.stop().has_value()) return job_.evaluations.stop()->reason;
  if (ledger_.rejected == 0) return "all batches are applied";
  const std::string& last = job_.failures.last();
  return absl::StrCat("all batches are done, ", ledger_.rejected, " of ", ledger_.batches,
                      " were rejected", last.empty() ? "" : "; the last failure: " + last);
}

std::string Report::SummaryText(const std::string& status, const std::string& reason,
                                ExitCode code) const {
  const std::vector<EvaluationResult>& results = job_.evaluations.results();
  json history = HistoryJson(job_, results, 0);
  json summary = {
      {"status", status},
      {"reason", reason},
      {"epochs", job_.training.closed()},
      {"wall_seconds", Seconds(counters_.wall_ms)},
      {"first_step_seconds", nullptr},
      {"samples", ledger_.samples},
      {"computed", counters_.computed},
      {"duplicates", counters_.duplicates},
      {"program_losses", counters_.program_losses},
      {"samples_per_second",
       Ratio(static_cast<double>(counters_.training_samples), Seconds(counters_.training_ms))},
      {"metrics", NewestMetrics(results, history, recently_)},
      {"evaluations", EvaluationsJson(results)},
      {"ledger",
       {{"batches", ledger_.batches},
        {"applied_min", ledger_.applied_min},
        {"applied_max", ledger_.applied_max},
        {"rejected", ledger_.rejected}}},
      {"recoveries",
       {{"worker", counters_.worker_recoveries},
        {"ps", counters_.ps_recoveries},
        {"coordinator", counters_.coordinator_recoveries}}},
      {"checkpoints", {{"count", counters_.checkpoints}, {"last_step", 0}, {"bytes", 0}}}};
  AddEpochs(job_, kNoHistory, job_.training.again_to(), summary);
  summary["history"] = std::move(history);
  if (code != ExitCode::kDone) summary["exit_code"] = static_cast<int>(code);
  if (status != "done" && !job_.failures.last().empty()) {
    summary["last_failure"] = job_.failures.last();
  }
  if (job_.end.planned() && !job_.end.ending().waiting.empty()) {
    summary["waiting"] = job_.end.ending().waiting;
  }
  const json tables = TablesJson(job_.record.variables(), job_.ps);
  if (!tables.is_null()) summary["tables"] = tables;
  if (json rounds = RoundsJson(job_); !rounds.is_null()) {
    rounds.erase("waits_for");
    summary["rounds"] = std::move(rounds);
  }
  AddStrategy(job_, summary);
  if (const EvaluationResult* const best = job_.evaluations.Best()) {
    const std::string& metric = job_.options.job.stop_when->metric;
    summary["best"] = {
        {"epoch", best->epoch + 1}, {"metric", metric}, {"value", best->metrics.at(metric)}};
    const Manifest* const checkpoint = job_.BestCheckpoint();
    if (checkpoint != nullptr) summary["best"]["checkpoint"] = checkpoint->name.ToString();
  }
  if (counters_.first_step_ms >= 0)
    summary["first_step_seconds"] = Seconds(counters_.first_step_ms);
  if (const Manifest* const newest = job_.checkpoints.newest()) {
    uint64_t bytes = 0;
    for (const ManifestFile& file : newest->files) bytes += file.bytes;
    summary["checkpoints"]["last_step"] = newest->name.step;
    summary["checkpoints"]["bytes"] = bytes;
  }
  return TextOf(summary, 2) + "\n";
}

Chart Report::TrainingChart() const {
  Chart chart{static_cast<int64_t>(BatchesDone()), {}};
  if (recently_.computed > 0) {
    chart.values = {{"train/loss", recently_.loss()}, {"cluster/staleness", recently_.staleness()}};
  }
  chart.values.emplace_back("cluster/samples_per_second", SamplesPerSecond());
  chart.values.emplace_back("cluster/workers", static_cast<double>(job_.sessions.all().size()));
  return chart;
}

std::optional<double> Report::SecondsLeft() const {
  const uint64_t done = BatchesDone();
  const double rate = SamplesPerSecond();
  const bool training = job_.phases.now() == Phase::kTraining && job_.record.fixed() &&
                        job_.ps.AllAre(PsState::kReady);
  if (!training || done >= ledger_.batches || rate <= 0) return std::nullopt;
  return static_cast<double>(ledger_.batches - done) * job_.record.plan().batch() / rate;
}

std::vector<std::vector<PartitionSize>> LargestPartitions(const JobView& job, size_t most) {
  const std::vector<PartitionSpec>& layout = job.ps.layout();
  const std::vector<uint64_t> bytes = PartitionBytes(job.record.variables(), layout);
  // A growing table counts the rows present, whatever its layout has room for.
  std::map<uint32_t, uint64_t> grown;
  for (const Ps* ps : job.ps.Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      if (partition.has_table()) grown[partition.id()] = partition.table().bytes();
    }
  }
  std::vector<std::vector<PartitionSize>> of_ps(job.ps.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout[i].ps() >= of_ps.size()) continue;
    const auto rows = grown.find(layout[i].id());
    of_ps[layout[i].ps()].push_back(
        {layout[i].name(), rows == grown.end() ? bytes[i] : rows->second});
  }
  for (std::vector<PartitionSize>& all : of_ps) {
    const auto larger = [](const auto& a, const auto& b) {
      return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name);
    };
    const size_t kept = std::min(most, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept), all.end(), larger);
    all.resize(kept);
  }
  return of_ps;
}

std::string Report::StatusJson(uint64_t history_from) const {
  const std::optional<int64_t> counted_ms = job_.throughput.counted_ms();
  json status = {
      {"job", job_.options.job.name},
      {"run_id", job_.record.run_id()},
      {"phase", PhaseName(job_.phases.now())},
      {"generation", job_.generation.claimed()},
      {"coordinator", job_.options.boot_id},
      {"dir", job_.options.ShownDir()},
      {"epoch", job_.training.closed() + (job_.training.table() != nullptr ? 1 : 0)},
      {"epochs", job_.record.fixed() ? job_.Extent().epochs() : job_.options.job.epochs},
      {"batches", ledger_.batches},
      {"batches_done", BatchesDone()},
      {"applied_min", ledger_.applied_min},
      {"applied_max", ledger_.applied_max},
      {"rejected", std::max<uint64_t>(ledger_.rejected, job_.failures.counts().All().size())},
      {"healthy", ledger_.healthy},
      {"insecure", job_.options.insecure},
      {"loss", recently_.computed > 0 ? json(recently_.loss()) : json()},
      {"samples_per_second", SamplesPerSecond()},
      {"last_batch_seconds",
       counted_ms.has_value() ? json(Seconds(now_ms_ - *counted_ms)) : json()},
      {"wall_seconds", Seconds(counters_.wall_ms)},
      {"up_seconds", Seconds(now_ms_ - job_.phases.started_ms())},
      {"ps", PsJson(job_, now_ms_)},
      {"workers", WorkersJson(job_.sessions, job_.training.table(), now_ms_)},
      {"recoveries",
       {{"worker", counters_.worker_recoveries},
        {"ps", counters_.ps_recoveries},
        {"coordinator", counters_.coordinator_recoveries}}}};
  json& checkpoint = status["checkpoint"] = CheckpointJson(job_.checkpoints.Usable());
  checkpoint.update({{"count", counters_.checkpoints},
                     {"every_seconds", job_.options.job.checkpoint.every_seconds},
                     {"running", job_.rounds.running()},
                     {"problem", job_.rounds.problem().empty() ? job_.record.writer().problem()
                                                               : job_.rounds.problem()},
                     {"refused", job_.checkpoints.refused()}});
  if (const auto took_ms = job_.rounds.took_ms()) checkpoint["seconds"] = Seconds(*took_ms);
  if (const auto left = SecondsLeft()) status["seconds_left"] = *left;
  if (job_.end.decided()) {
    status["exit"] = {{"code", job_.end.exit().code}, {"reason", job_.end.exit().reason}};
  } else if (job_.end.planned()) {
    const Ending& ending = job_.end.ending();
    status["ending"] = {{"code", static_cast<int>(ending.code)},
                        {"status", ending.status},
                        {"reason", Sendable(ending.reason)}};
  }
  status["evaluations"] = EvaluationsJson(job_.evaluations.told());
  AddEpochs(job_, history_from, BatchesDone(), status);
  const json tables = TablesJson(job_.record.variables(), job_.ps);
  if (!tables.is_null()) status["tables"] = tables;
  if (json rounds = RoundsJson(job_); !rounds.is_null()) status["rounds"] = std::move(rounds);
  AddStrategy(job_, status);
  AddLayout(job_, now_ms_, status);
  const std::string waiting = Waiting(job_, now_ms_);
  if (!waiting.empty()) status["waiting"] = waiting;
  if (!job_.options.untaken.empty()) status["untaken"] = job_.options.untaken;
  if (!job_.refusals.by_task().empty()) status["refused"] = job_.refusals.by_task();
  if (!job_.failures.last().empty()) status["last_failure"] = job_.failures.last();
  status["program_losses"] = counters_.program_losses;
  return TextOf(status);
}

std::vector<Chart> EvaluationCharts(const JobView& job, size_t index) {
  const std::span<const EvaluationResult> told = job.evaluations.told();
  std::vector<Chart> charts;
  for (; index < told.size(); ++index) {
    const EvaluationResult& result = told[index];
    Chart chart{static_cast<int64_t>((result.epoch + 1) * BatchesPerEpoch(job.record.plan())), {}};
    for (const auto& [name, value] : result.metrics) {
      chart.values.emplace_back("test/" + name, value);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace paracord
