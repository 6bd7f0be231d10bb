#include "coordinator/core/round_status.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kNamedMax = 3;  // workers named one by one

// Returns the sessions for which the round under way waits: their lanes are furthest behind and
// block the others. Empty if nobody waits.
std::string WaitsFor(const JobView& job, const SplitTable& table) {
  const uint32_t allowed = job.options.job.guarantees.staleness.value_or(0);
  const uint32_t least = table.least();
  if (table.AllDone() || table.front() <= least + allowed) return "";
  std::set<std::string> tasks;
  size_t free = 0;
  const std::vector<uint64_t> holders = table.Holders();
  for (uint64_t lane = 0; lane < holders.size(); ++lane) {
    if (table.IsDone(lane) || table.NextOf(lane) != least) continue;
    const auto holder = job.sessions.all().find(holders[lane]);
    if (holder == job.sessions.all().end()) {
      ++free;
    } else {
      tasks.insert(holder->second.task);
    }
  }
  std::vector<std::string> named(tasks.begin(), tasks.end());
  if (named.size() > kNamedMax) {
    named.resize(kNamedMax);
    named.push_back(absl::StrCat(tasks.size() - kNamedMax, " more"));
  }
  if (free > 0) {
    named.push_back((free == 1 ? "a lane" : absl::StrCat(free, " lanes")) + " that nobody has");
  }
  return absl::StrJoin(named, ", ");
}

void AddStates(const JobView& job, json& rounds) {
  uint64_t least = std::numeric_limits<uint64_t>::max(), greatest = 0;
  for (const Ps* ps : job.ps.Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      if (!partition.has_ledger()) continue;  // an untrained partition
      least = std::min(least, partition.state());
      greatest = std::max(greatest, partition.state());
    }
  }
  rounds["state_min"] = std::min(least, greatest);
  rounds["state_max"] = greatest;
}

}  // namespace

json RoundsJson(const JobView& job) {
  const DataPlan& plan = job.record.plan();
  if (!job.record.fixed() || plan.lanes() == 0) return nullptr;
  const uint64_t of = RoundsOfFirst(plan, job.Extent().batches());
  const SplitTable* const table = job.training.table();
  const uint64_t epochs = table != nullptr ? table->epoch() : job.training.closed();
  const uint64_t round = StateBefore(plan, epochs, table != nullptr ? table->least() : 0);
  json rounds = {{"round", std::min(round, of)},
                 {"rounds", of},
                 {"backups", job.record.counters().backups},
                 {"waited_seconds", static_cast<double>(job.record.counters().waited_ms) / 1000},
                 {"rollbacks", job.record.counters().rollbacks}};
  if (job.options.job.guarantees.sync()) {
    AddStates(job, rounds);
    rounds["reduce"] = job.options.job.guarantees.reduce_fast ? "fast" : "exact";
    rounds["same_numerics"] = job.sessions.same_numerics();
  }
  const std::string waits_for = table != nullptr ? WaitsFor(job, *table) : "";
  if (!waits_for.empty()) rounds["waits_for"] = waits_for;
  const Throughput::Steps& steps = job.throughput.steps();
  if (steps.seconds > 0) rounds["waited_share"] = steps.waited_seconds / steps.seconds;
  if (const auto usual_ms = job.lanes.clock().usual_ms()) {
    rounds["seconds_a_round"] = *usual_ms / 1000;
  }
  return rounds;
}

}  // namespace paracord
