// The contents of a ps from one Load to the next: the partitions of one run, by id. The loader
// makes it; after that only the partitions change, so it is read without a lock. The
// ParameterServer shares it with exchanges and snapshots in progress, which may outlive its own
// reference.
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
  std::vector<bool> whole;  // by variable of the job: all of its partitions are here
  bool alone = false;       // all trained partitions are here, so no worker carries norms

  uint32_t variables() const { return static_cast<uint32_t>(whole.size()); }
};

struct Content {
  std::string run_id;
  uint64_t loaded_generation = 0;
  DataPlan plan;
  bool sync = false;              // its trained partitions form rounds
  std::optional<RoundClip> clip;  // of rounds; nullopt: they are not clipped
  // Counts the rows of tables in sums of rounds and before them; null: nobody does.
  std::shared_ptr<MemoryShare> round_rows;
  TimeoutsSpec timeouts;
  std::string drawn;     // what initial_weights did not have, for people; empty: nothing
  std::string settings;  // of the job (config/job.h: PsSettings)
  Optimizer optimizer;   // the partitions refer to it
  // Ascending by id. Where a ps goes on with some of what it held, the contents before have these,
  // too, until whoever still reads them has done so.
  std::vector<std::shared_ptr<Partition>> partitions;
  size_t trained = 0;  // how many of them are
  // Pushes and norms that are being applied. Each looks at its fence once it is counted here, so
  // when none is left of those that a newer generation has found, no later one is entered.
  mutable std::atomic<int> pushes = 0;
  mutable std::atomic<const SnapshotTask*> armed = nullptr;  // whose images partitions wait with
  // The end of the job: batches behind it are refused. A coordinator may come again with more.
  mutable std::atomic<uint64_t> batches_end = kBatchesMax;

  Partition* Find(uint32_t id) const {
    const auto it = std::lower_bound(partitions.begin(), partitions.end(), id,
                                     [](const auto& p, uint32_t i) { return p->facts().id < i; });
    return it != partitions.end() && (*it)->facts().id == id ? it->get() : nullptr;
  }
};

// The bytes that all partitions take now.
uint64_t ResidentBytes(const Content& content);
// Counts them in `memory` if there are growing tables, whose rows come and go, and warns once when
// they take what is to stay for requests.
void CountTables(const Content& content, MemoryBudget& memory);

// Describes a partition for Describe and SnapshotReply.
PartitionDescription DescribePartition(const Partition::Facts& facts,
                                       const Partition::Counts& counts, bool intervals);

}  // namespace paracord
