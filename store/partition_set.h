// The contents of a ps from one Load order of the coordinator to the next: the partitions of one
// run, by id. After the loader has made the contents, only the partitions themselves and the
// atomics below change, so readers need no lock. The ParameterServer shares the contents with
// exchanges and snapshots in progress, which may need them longer than it does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/memory_budget.h"
#include "config/data_plan.h"
#include "config/job.h"
#include "config/norm_clip.h"
#include "store/optimizer.h"
#include "store/partition.h"

namespace paracord {

class SnapshotTask;

// How the rounds of a synchronous job are clipped by norm.
struct RoundClip {
  NormClip clip;
  std::vector<bool> whole;  // for each variable of the job, whether all its partitions are here
  bool alone = false;  // all trained partitions of the job are here, so no worker carries norms

  uint32_t variables() const { return static_cast<uint32_t>(whole.size()); }
};

struct PartitionSet {
  std::string run_id;
  uint64_t loaded_generation = 0;
  DataPlan plan;
  bool sync = false;              // trained partitions form rounds
  std::optional<RoundClip> clip;  // nullopt: rounds are not clipped
  // Counts the rows of tables in sums of rounds and in values before a round; null: not counted.
  std::shared_ptr<MemoryShare> round_rows;
  TimeoutsSpec timeouts;
  // What InitialWeights::Drawn says; "": nothing.
  std::string drawn;
  std::string settings;  // what the job says of its ps (PsSettings in config/job.h)
  Optimizer optimizer;   // the job's
  // Ascending by id. If a ps keeps partitions across a Load, its former contents have them, too,
  // until the last reader of these contents is done.
  std::vector<std::shared_ptr<Partition>> partitions;
  size_t trained = 0;  // how many of `partitions` are trained
  // How many steps with a push or norms are under way. Each step counts itself here before it
  // checks its fence: once the count has been 0 in a newer generation, no older step can enter
  // anything.
  mutable std::atomic<int> pushes = 0;
  // The task whose images may wait in partitions for their states; null: none.
  mutable std::atomic<const SnapshotTask*> armed = nullptr;
  // The number of batches of the job: batches beyond it are refused. A coordinator may raise it.
  mutable std::atomic<uint64_t> batches_end = kBatchesMax;

  Partition* Find(uint32_t id) const {
    const auto it = std::lower_bound(partitions.begin(), partitions.end(), id,
                                     [](const auto& p, uint32_t i) { return p->facts().id < i; });
    return it != partitions.end() && (*it)->facts().id == id ? it->get() : nullptr;
  }
};

// The resident bytes of all partitions.
uint64_t ResidentBytes(const PartitionSet& content);
// If some partition is of a growing table, counts the resident bytes of all partitions in `memory`
// as its variables, and logs a warning the first time that they take memory reserved for requests.
void CountTables(const PartitionSet& content, MemoryBudget& memory);

// Describes a partition for a message. `intervals` is as in PartitionLedger::ToProto.
PartitionDescription DescribePartition(const Partition::Facts& facts,
                                       const Partition::Counts& counts, bool intervals);

}  // namespace paracord
