#include "coordinator/status_metrics.h"

#include <map>
#include <string>

namespace paracord {
namespace {

using nlohmann::json;

double Number(const json& of, const char* key) {
  const auto it = of.find(key);
  if (it == of.end()) return 0;
  if (it->is_boolean()) return it->get<bool>() ? 1 : 0;
  return it->is_number() ? it->get<double>() : 0;
}

// Adds a gauge for a key that the status may lack, such as the loss before the first batch.
void AddIfKnown(const json& of, const char* key, const char* name, const char* help,
                MetricSet& metrics, const MetricSet::Labels& labels = {}) {
  const auto it = of.find(key);
  if (it != of.end() && it->is_number()) metrics.Gauge(name, help, it->get<double>(), labels);
}

void AddPhase(const json& status, MetricSet& metrics) {
  const std::string now = status.value("phase", "");
  for (const char* phase : {"forming", "loading", "training", "evaluating", "finishing", "ended"}) {
    metrics.Gauge("paracord_job_phase", "1 for the phase that the job is in.", now == phase ? 1 : 0,
                  {{"phase", phase}});
  }
}

void AddProgress(const json& status, MetricSet& metrics) {
  const auto gauge = [&](const char* name, const char* key, const char* help) {
    metrics.Gauge(name, help, Number(status, key));
  };
  gauge("paracord_job_generation", "generation", "The generation that the coordinator leads.");
  gauge("paracord_job_epoch", "epoch", "The epoch under way, from 1.");
  gauge("paracord_job_epochs", "epochs", "Epochs in all.");
  gauge("paracord_job_batches", "batches", "Batches in all.");
  gauge("paracord_job_batches_done", "batches_done", "Batches applied or rejected.");
  gauge("paracord_job_rejected_batches", "rejected", "Batches left out because they fail.");
  metrics.Counter("paracord_bad_records_total",
                  "Records that were left out of batches because they cannot be read.",
                  Number(status.value("bad_records", json::object()), "left_out"));
  metrics.Counter("paracord_job_program_losses_total",
                  "Times that a worker's program was lost and started again.",
                  Number(status, "program_losses"));
  gauge("paracord_job_healthy", "healthy", "0 if some value is not finite.");
  gauge("paracord_job_samples_per_second", "samples_per_second",
        "Samples computed in a second, over the recent past.");
  AddIfKnown(status, "loss", "paracord_job_loss", "The mean loss of the recent past.", metrics);
  AddIfKnown(status, "seconds_left", "paracord_job_left_seconds",
             "Until the last batch at the present rate.", metrics);
  AddIfKnown(status, "last_batch_seconds", "paracord_job_last_batch_age_seconds",
             "Since a worker last told of a batch.", metrics);
  metrics.Gauge("paracord_job_waiting", "1 while nothing moves; status says why.",
                status.contains("waiting") ? 1 : 0);
  metrics.Gauge("paracord_job_refused_tasks", "Tasks that may not take part; status says why.",
                static_cast<double>(status.value("refused", json::object()).size()));
  const json recoveries = status.value("recoveries", json::object());
  for (const char* role : {"worker", "ps", "coordinator"}) {
    metrics.Counter("paracord_job_recoveries_total", "Tasks that were lost and replaced, by role.",
                    Number(recoveries, role), {{"of", role}});
  }
}

void AddRounds(const json& rounds, MetricSet& metrics) {
  if (rounds.empty()) return;
  metrics.Gauge("paracord_round", "Rounds that every lane has entered.", Number(rounds, "round"));
  AddIfKnown(rounds, "seconds_a_round", "paracord_round_seconds",
             "How long a round takes, over the recent past.", metrics);
  metrics.Gauge("paracord_round_waiting", "1 while lanes wait for others; status says for whom.",
                rounds.contains("waits_for") ? 1 : 0);
  metrics.Counter("paracord_round_waited_seconds_total",
                  "Time in which workers waited for lanes of others, in all lives of the job.",
                  Number(rounds, "waited_seconds"));
  metrics.Counter("paracord_backup_lanes_total",
                  "Lanes that a round waited for and a second worker was given.",
                  Number(rounds, "backups"));
  metrics.Counter("paracord_rollbacks_total",
                  "Times that all parameter servers went back to a checkpoint.",
                  Number(rounds, "rollbacks"));
}

void AddCheckpoint(const json& checkpoint, int64_t unix_ms, MetricSet& metrics) {
  metrics.Gauge("paracord_checkpoint_interval_seconds",
                "Between checkpoints, as the job asks; 0: only at its end.",
                Number(checkpoint, "every_seconds"));
  metrics.Counter("paracord_checkpoints_total", "Checkpoints written, in all lives of the job.",
                  Number(checkpoint, "count"));
  metrics.Gauge("paracord_checkpoint_failing", "1 while the newest checkpoint cannot be written.",
                checkpoint.value("problem", "").empty() ? 0 : 1);
  metrics.Gauge("paracord_checkpoint_refused", "Checkpoints that cannot be restored.",
                static_cast<double>(checkpoint.value("refused", json::object()).size()));
  AddIfKnown(checkpoint, "bytes", "paracord_checkpoint_bytes", "Size of the newest checkpoint.",
             metrics);
  AddIfKnown(checkpoint, "seconds", "paracord_checkpoint_duration_seconds",
             "How long the newest checkpoint took.", metrics);
  const double created_ms = Number(checkpoint, "created_unix_ms");
  if (created_ms == 0) return;
  metrics.Gauge("paracord_checkpoint_timestamp_seconds",
                "When the newest checkpoint was made, since 1970.", created_ms / 1000);
  metrics.Gauge("paracord_checkpoint_age_seconds", "Since the newest checkpoint was made.",
                (static_cast<double>(unix_ms) - created_ms) / 1000);
}

void AddPs(const json& all, MetricSet& metrics) {
  std::map<std::string, double> states = {
      {"ready", 0}, {"draining", 0}, {"away", 0}, {"loading", 0}};
  for (const json& ps : all) {
    const MetricSet::Labels peer = {{"peer", ps.value("task", "")}};
    ++states[ps.value("state", "")];
    metrics.Gauge("paracord_peer_up", "1 while the coordinator counts the task in.",
                  ps.value("state", "") == "ready" ? 1 : 0, peer);
    metrics.Gauge("paracord_peer_silent_seconds", "Since the coordinator last heard the task.",
                  Number(ps, "silent_seconds"), peer);
    metrics.Gauge("paracord_peer_bytes", "Bytes of parameters that a ps holds.",
                  Number(ps, "bytes"), peer);
  }
  for (const auto& [state, count] : states) {
    metrics.Gauge("paracord_job_ps", "Parameter servers, by state.", count, {{"state", state}});
  }
}

// All gauges are 0 for a job without copies or without a move, so that alerts can rely on them.
void AddCopies(const json& copies, const json& move, MetricSet& metrics) {
  const double partitions = Number(copies, "partitions");
  metrics.Gauge("paracord_copies_partitions", "Partitions that are to be on two ps.", partitions);
  metrics.Gauge("paracord_copies_alone_partitions", "Of these, partitions that are on one ps only.",
                partitions - Number(copies, "with_both"));
  metrics.Gauge("paracord_copies_alone_bytes", "Bytes of partitions that are on one ps only.",
                Number(copies, "bytes_with_one"));
  metrics.Counter("paracord_copies_promotions_total",
                  "Times that second ps took over, in the life of this coordinator.",
                  Number(copies, "promotions"));
  const std::string phase = move.value("phase", "");
  const bool ended = phase.empty() || phase == "done" || phase == "given up";
  metrics.Gauge("paracord_move_under_way", "1 while partitions move to other ps.", ended ? 0 : 1);
  metrics.Gauge("paracord_move_given_up", "1 if the newest move was given up; status says why.",
                phase == "given up" ? 1 : 0);
  AddIfKnown(move, "seconds", "paracord_move_seconds", "How long the newest move takes, or took.",
             metrics);
  AddIfKnown(move, "stopped_seconds", "paracord_move_stopped_seconds",
             "How long training stands, or stood, still for the newest move.", metrics);
}

// Returns the object at the key; an empty object if the key is missing or null.
json ObjectAt(const json& of, const char* key) {
  const auto it = of.find(key);
  return it != of.end() && it->is_object() ? *it : json::object();
}

void AddTables(const json& all, MetricSet& metrics) {
  for (const auto& [name, table] : all.items()) {
    const MetricSet::Labels labels = {{"table", name}};
    metrics.Gauge("paracord_table_rows", "Rows of a growing table.", Number(table, "rows"), labels);
    metrics.Gauge("paracord_table_bytes", "Memory of a growing table on all ps.",
                  Number(table, "bytes"), labels);
    metrics.Gauge("paracord_table_pulled_rows_per_second", "Rows that workers ask for.",
                  Number(table, "pulled_rows_per_second"), labels);
    metrics.Gauge("paracord_table_pushed_rows_per_second", "Rows that workers send gradients of.",
                  Number(table, "pushed_rows_per_second"), labels);
  }
}

void AddWorkers(const json& all, MetricSet& metrics) {
  double leases = 0, resting = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const json& worker = all[i];
    leases += Number(worker, "leases");
    resting += Number(worker, "resting");
    if (i >= kWorkersShown) continue;
    const MetricSet::Labels peer = {{"peer", worker.value("task", "")}};
    metrics.Gauge("paracord_peer_up", "1 while the coordinator counts the task in.", 1, peer);
    metrics.Gauge("paracord_peer_silent_seconds", "Since the coordinator last heard the task.",
                  Number(worker, "silent_seconds"), peer);
    metrics.Gauge("paracord_peer_samples_per_second", "Samples of a worker since it joined.",
                  Number(worker, "samples_per_second"), peer);
    metrics.Gauge("paracord_peer_staleness_updates", "Mean staleness of a worker's gradients.",
                  Number(worker, "staleness"), peer);
    AddIfKnown(worker, "waited_share", "paracord_peer_waited_share",
               "The part of its time in which a worker waited for lanes of others.", metrics, peer);
  }
  metrics.Gauge("paracord_job_workers", "Workers that take part.", static_cast<double>(all.size()));
  metrics.Gauge("paracord_job_resting_workers", "Workers that rest after failures.", resting);
  metrics.Gauge("paracord_job_leases", "Leases that workers hold.", leases);
}

}  // namespace

void AddStatusMetrics(const json& status, int64_t unix_ms, MetricSet& metrics) {
  if (!status.is_object()) return;
  AddPhase(status, metrics);
  AddProgress(status, metrics);
  AddRounds(status.value("rounds", json::object()), metrics);
  AddCheckpoint(status.value("checkpoint", json::object()), unix_ms, metrics);
  AddPs(status.value("ps", json::array()), metrics);
  AddWorkers(status.value("workers", json::array()), metrics);
  AddTables(status.value("tables", json::object()), metrics);
  AddCopies(ObjectAt(status, "copies"), ObjectAt(status, "move"), metrics);
  const json evaluations = status.value("evaluations", json::array());
  if (evaluations.empty()) return;
  const json newest = evaluations.back().value("metrics", json::object());
  for (const auto& [name, value] : newest.items()) {
    if (!value.is_number()) continue;
    metrics.Gauge("paracord_job_test_metric", "A metric of the newest evaluation.",
                  value.get<double>(), {{"metric", name}});
  }
}

}  // namespace paracord
