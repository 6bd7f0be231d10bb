// Draws the plan of a cluster from a seed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"
#include "config/tables.h"
#include "sim/cluster.h"

namespace paracord {
namespace {

Job BaseJob(const CountingOptions& counting) {
  Job job;
  job.name = "counting";
  job.model = JsonOf(R"({"class_name": "Sequential", "config": {"layers": []}})");
  job.train = {"idx", {{"features", "/f"}, {"labels", "/l"}}};
  if (counting.test_records > 0) job.test = job.train;
  job.each_epoch.shuffle = false;
  job.loss = {"mean_squared_error"};
  job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
  return job;
}

}  // namespace

ClusterPlan ClusterPlan::Draw(SimRandom random) {
  ClusterPlan plan;
  plan.ps = static_cast<uint32_t>(random.Between(1, 3));
  plan.workers = static_cast<uint32_t>(random.Between(1, 3));
  plan.late_workers = static_cast<uint32_t>(random.Between(0, 2));
  plan.second_coordinator = random.Chance(0.25);
  plan.damage = random.Chance(0.15);
  if (random.Chance(0.4)) plan.drain_every_ms = random.Between(1000, 8000);
  plan.fault_ms = random.Between(2000, 12000);
  plan.wait_for_workers = random.Chance(0.1);

  CountingOptions& counting = plan.counting;
  counting.records = static_cast<uint64_t>(random.Between(6, 24));
  counting.test_records = random.Chance(0.5) ? static_cast<uint64_t>(random.Between(1, 40)) : 0;
  counting.rows = static_cast<uint64_t>(random.Between(1, 4));
  counting.trained = static_cast<uint32_t>(random.Between(1, 2));
  counting.frozen = random.Chance(0.3);

  Job& job = plan.job = BaseJob(counting);
  job.batch = static_cast<uint32_t>(random.Between(2, 3));
  job.split_batches = static_cast<uint32_t>(random.Between(1, 4));
  job.epochs = static_cast<uint64_t>(random.Between(1, 3));
  job.evaluate_every_epochs = static_cast<uint64_t>(random.Between(0, 1));
  counting.batches = (counting.records + job.batch - 1) / job.batch;
  job.failures.per_batch = job.failures.deaths_per_batch = 1000;  // no batch may be rejected
  job.failures.rejected_max = 0;
  if (random.Chance(0.3)) {
    job.failures.per_batch = static_cast<uint32_t>(std::max<int64_t>(1, random.Between(0, 3)));
    job.failures.deaths_per_batch = job.failures.per_batch;
    job.failures.rejected_max = 1;
    const auto last = static_cast<int64_t>(counting.batches) - 1;
    for (auto* bad : {&counting.unreadable, &counting.nonfinite}) {
      if (random.Chance(0.5)) bad->insert(static_cast<uint64_t>(random.Between(0, last)));
    }
  }
  job.timeouts.start_s = 100;  // how long a process waits if it starts after the job's end
  job.timeouts.worker_ms = random.Between(500, 3000);
  job.timeouts.ps_ms = random.Between(300, 2000);
  job.timeouts.orphan_ms = random.Between(8000, 20000);
  job.timeouts.drain_ms = random.Between(500, 5000);
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = static_cast<uint64_t>(random.Between(1, 3));
  job.partitioner.placement = random.Chance(0.5) ? "greedy" : "round_robin";
  job.checkpoint.every_seconds = random.Chance(0.1) ? 0 : 0.2 + 2 * random.Unit();
  job.checkpoint.keep = static_cast<uint32_t>(random.Between(1, 3));
  plan.reports_ahead = random.Chance(0.1);
  plan.epochs = job.epochs;
  plan.DrawVariant(random);
  return plan;
}

// Draws the variant last. All draws before it keep their values when a variant is added.
void ClusterPlan::DrawVariant(SimRandom& random) {
  const bool rejects = job.failures.rejected_max > 0;
  const double kind = random.Unit();
  if (kind < 0.1 && !rejects) {  // optimizer slots show the order of the batches
    job.optimizer = random.Chance(0.5)
                        ? NamedSpec{"sgd", {{"learning_rate", 0.5}, {"momentum", 0.5}}}
                        : NamedSpec{"adam", {{"learning_rate", 0.125}}};
    counting.test_records = 0;
    job.test.reset();
    calm = random.Chance(0.3);
    if (!calm) return;
    workers = 1;
    late_workers = 0;
    second_coordinator = damage = reports_ahead = wait_for_workers = false;
    drain_every_ms = 0;
    resume_ps = static_cast<uint32_t>(random.Between(0, 4));
  } else if (kind < 0.2 && !rejects && counting.test_records > 0) {
    epochs = static_cast<uint64_t>(random.Between(1, static_cast<int64_t>(job.epochs)));
    const double batches = static_cast<double>(epochs * counting.batches) - 0.25;
    job.evaluate_every_epochs = 1;
    job.stop_when = StopWhen{"loss", batches * CountingLossPerBatch(counting.test_records), {}};
    // Counts only grow, so each evaluation beats the evaluations before it.
    job.stop_when->larger_is_better = true;
    job.stop_when->restore_best = true;
  } else if (kind > 0.8) {
    resume_ps = static_cast<uint32_t>(random.Between(1, 4));
  }
}

// Draws from a separate random stream, so that seeds with float32 on the wire keep their traces.
// Counts are exact in every wire type, and top-k with a ratio of 1 sends every element.
void ClusterPlan::DrawWire(SimRandom random) {
  if (random.Chance(0.5)) return;
  job.overlap = !calm && random.Chance(0.6);
  const auto wire = random.Between(0, 3);
  if (wire > 0) job.wire = wire == 1 ? "bf16" : "f16";
  if (random.Chance(0.3)) job.compression = {CompressionSpec::Kind::kTopK, 1.0};
  staged_push = random.Chance(0.5);
}

void ClusterPlan::MakeTables() { counting.tables = LeavesUntouchedAlone(job.optimizer, {}); }

// Draws from a separate random stream, so that seeds with full checkpoints keep their traces.
void ClusterPlan::DrawDeltas(SimRandom random) {
  if (random.Chance(0.7)) job.checkpoint.full_every = static_cast<uint32_t>(random.Between(2, 5));
}

// Draws from a separate random stream, so that seeds with splits keep their traces.
void ClusterPlan::DrawLanes(SimRandom random) {
  lanes = static_cast<uint32_t>(random.Between(1, 5));
  staleness = static_cast<uint64_t>(random.Chance(0.4) ? 0 : random.Between(1, 3));
  job.guarantees.staleness = static_cast<uint32_t>(staleness);
  job.guarantees.round_batches = lanes;
  job.split_batches.reset();
}

// Draws from a separate random stream. Optimizers have slots here, and some epochs end with short
// batches.
void ClusterPlan::DrawSync(SimRandom random) {
  lanes = static_cast<uint32_t>(random.Between(1, 5));
  job.guarantees.consistency = "sync";
  job.guarantees.recovery = "rollback";
  job.guarantees.round_batches = lanes;
  job.split_batches.reset();
  job.overlap = false;
  job.compression = {};
  job.stop_when.reset();
  epochs = job.epochs;
  counting.mixing = true;
  if (calm) resume_ps = 0;
  calm = false;
  static constexpr std::string_view kOptimizers[] = {"sgd", "momentum", "adam", "adagrad"};
  const std::string_view optimizer = kOptimizers[random.Between(0, 3)];
  job.optimizer = {std::string(optimizer), {{"learning_rate", 0.125}}};
  if (optimizer == "momentum") {
    job.optimizer = {"sgd", {{"learning_rate", 0.5}, {"momentum", 0.5}}};
  }
  counting.lazy = counting.tables && !LeavesUntouchedAlone(job.optimizer, {});
  // The job alone determines which batches are rejected, not how often workers die.
  job.failures.deaths_per_batch = 1000;
  if (random.Chance(0.5)) {
    job.guarantees.backup_factor = 1.5 + static_cast<double>(random.Between(0, 5)) / 2;
  }
  // These bounds clip some gradients and leave others alone.
  const auto clips = random.Between(0, 3);
  if (clips == 1) {
    job.optimizer.options["clipnorm"] = 0.25 * static_cast<double>(random.Between(1, 8));
  }
  if (clips == 2) {
    job.optimizer.options["global_clipnorm"] = 0.5 * static_cast<double>(random.Between(1, 8));
  }
}

// Draws from a separate random stream. A worker with one device then pushes single lanes of a run
// that another worker pushes whole.
void ClusterPlan::DrawDevices(SimRandom random) {
  if (random.Chance(0.4)) return;
  for (int i = 0; i < 3; ++i) devices.push_back(static_cast<uint32_t>(random.Between(1, 4)));
}

// From a stream of its own, too.
void ClusterPlan::DrawMoves(SimRandom random) {
  move_every_ms = random.Between(300, 3000);
  calm = false;
}

// From a stream of its own, too. Seconds have somewhere to be, and something to prepare in an
// asynchronous job.
void ClusterPlan::DrawCopies(SimRandom random) {
  job.partitioner.copies = 1;
  ps = static_cast<uint32_t>(random.Between(2, 3));
  job.checkpoint.every_seconds = 0.2 + random.Unit();
  calm = false;
}

// Workers beyond the nodes are not in the cluster's TF_CONFIG, and hold no ps.
void ClusterPlan::MakeNodes() {
  nodes = true;
  second_coordinator = false;  // no second process listens at the address of node 0
  if (!calm) return;
  ps = 1;  // each node computes, and a calm cluster has one worker
  workers = resume_ps = 0;
}

void ClusterPlan::MakeGrowing(SimRandom random) {
  MakeTables();
  counting.growing = counting.tables;
  if (!counting.growing || job.stop_when.has_value() || random.Chance(0.3)) return;
  // The values lack the batches before a row's admission and after its expiry, so scores are
  // unknown.
  counting.test_records = 0;
  job.test.reset();
  if (random.Chance(0.6)) counting.admit_after = static_cast<uint32_t>(random.Between(2, 3));
  if (random.Chance(0.4)) counting.expire_batches = static_cast<uint64_t>(random.Between(1, 4));
  if (random.Chance(0.2)) {
    counting.rows_max = counting.rows * static_cast<uint64_t>(random.Between(1, 2));
  }
}

std::string ClusterPlan::ToString() const {
  return absl::StrCat(
      ps, nodes ? " nodes, " : " ps, ", workers, "+", late_workers, " workers",
      second_coordinator ? ", a second coordinator" : "", damage ? ", damage" : "",
      reports_ahead ? ", reports ahead" : "", inventor ? ", an inventor" : "", calm ? ", calm" : "",
      job.partitioner.copies > 0 ? ", copies" : "",
      move_every_ms > 0 ? absl::StrCat(", move_every_ms=", move_every_ms) : "",
      ", drain_every_ms=", drain_every_ms, ", fault_ms=", fault_ms, ", batches=", counting.batches,
      ", epochs=", job.epochs, ", wire=", job.wire,
      job.compression.kind == CompressionSpec::Kind::kTopK ? " top_k" : "",
      job.overlap ? " overlapped" : "", staged_push ? ", early push" : "",
      job.guarantees.sync() ? absl::StrCat(", synchronous, ", lanes, " lanes, backup ",
                                           job.guarantees.backup_factor.value_or(0))
      : lanes > 0           ? absl::StrCat(", ", lanes, " lanes, staleness ", staleness)
                            : "",
      devices.empty() ? "" : absl::StrCat(", devices ", absl::StrJoin(devices, ",")),
      counting.growing ? absl::StrCat(", growing tables: after ", counting.admit_after, ", expire ",
                                      counting.expire_batches, ", rows_max ", counting.rows_max,
                                      ", full every ", job.checkpoint.full_every)
      : counting.tables ? ", tables"
                        : "",
      ", test_records=", counting.test_records, ", optimizer=", job.optimizer.name,
      TextOf(job.optimizer.options), ", done after ", epochs, " epochs",
      resume_ps > 0 ? absl::StrCat(", resumed with ", resume_ps, " ps") : "");
}

}  // namespace paracord
