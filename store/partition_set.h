// The contents of a ps from one Load to the next: the partitions of one run, by id. After the
// loader has made them, only the partitions themselves change, so readers need no lock. The
// ParameterServer shares the contents with exchanges and snapshots in progress, which may outlive
// its own reference.
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
  std::vector<bool> whole;  // index: variable of the job; true: all partitions are here
  bool alone = false;       // all trained partitions are here, so no worker carries norms

  uint32_t variables() const { return static_cast<uint32_t>(whole.size()); }
};

struct PartitionSet {
  std::string run_id;
  uint64_t loaded_generation = 0;
  DataPlan plan;
  bool sync = false;              // trained partitions form rounds
  std::optional<RoundClip> clip;  // nullopt: rounds are not clipped
  // Counts the rows of tables in sums of rounds and before the rounds; null: not counted.
  std::shared_ptr<MemoryShare> round_rows;
  TimeoutsSpec timeouts;
  std::string drawn;     // variables that initial_weights lacked, for people; "": none
  std::string settings;  // config/job.h: PsSettings
  Optimizer optimizer;   // the partitions refer to it
  // Ascending by id. If a ps keeps partitions across a Load, the contents before share these
  // partitions, until their last reader is done.
  std::vector<std::shared_ptr<Partition>> partitions;
  size_t trained = 0;  // trained ones among `partitions`
  // Pushes and norms being applied. A push counts itself here before it checks its fence: once the
  // pushes that a newer generation found are done, no older push can enter anything.
  mutable std::atomic<int> pushes = 0;
  mutable std::atomic<const SnapshotTask*> armed = nullptr;  // its images wait in partitions
  // The end of the job: batches beyond it are refused. A coordinator may raise it later.
  mutable std::atomic<uint64_t> batches_end = kBatchesMax;

  Partition* Find(uint32_t id) const {
    const auto it = std::lower_bound(partitions.begin(), partitions.end(), id,
                                     [](const auto& p, uint32_t i) { return p->facts().id < i; });
    return it != partitions.end() && (*it)->facts().id == id ? it->get() : nullptr;
  }
};

// The resident bytes of all partitions.
uint64_t ResidentBytes(const PartitionSet& content);
// Counts the partitions in `memory` if there are growing tables, whose rows come and go. Warns once
// when they take the memory reserved for requests.
void CountTables(const PartitionSet& content, MemoryBudget& memory);

// Describes a partition for Describe and SnapshotReply.
PartitionDescription DescribePartition(const Partition::Facts& facts,
                                       const Partition::Counts& counts, bool intervals);

}  // namespace paracord
