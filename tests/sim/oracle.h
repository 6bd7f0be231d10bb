// Checks the invariants of a simulated cluster, which hold whatever happens to it: it looks at the
// ps after every request that they answer and at the disk after every event, and reports to the
// world. It is no part of any process, so it forgets nothing. Owned by Cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/partitions.h"
#include "server/parameter_server.h"
#include "sim/counting_workload.h"
#include "sim/world/sim_world.h"
#include "store/dense_partition.h"
#include "store/partition_set.h"
#include "stored_tensors.h"

namespace paracord {

// DIR of the job: objects where the world has an object store.
inline std::string SimDir(SimWorld& world) {
  return world.storage().objects().used ? "s3://bucket/job" : "/job";
}

class Oracle {
 public:
  // `epochs` is the number of epochs after which the job is done (fewer than the job's if it stops
  // early). `ordered` says that there is one worker and no faults, so that the batches are applied
  // in the order of the plan.
  Oracle(SimWorld& world, const Job& job, const CountingOptions& counting, uint64_t epochs,
         bool ordered);
  // Called when the job is given more epochs.
  void GoOn(uint64_t epochs) { epochs_ = epochs; }
  const DataPlan& plan() const { return plan_; }

  // The state of one partition of a ps at one moment.
  struct Seen {
    uint64_t updates = 0;
    Ledger ledger;
    std::vector<float> values;
    bool trained = false;
    bool operator==(const Seen& other) const {
      return updates == other.updates && values == other.values &&
             ledger.SerializeAsString() == other.ledger.SerializeAsString();
    }
  };
  using PsSeen = std::map<uint32_t, Seen>;
  // What a checkpoint has: every partition, and of growing ones the rows that batches read.
  using Grown = std::map<uint32_t, std::vector<float>>;
  using CheckpointFn = std::function<void(
      const std::string& name, const std::vector<StoredTensors>& stored, const Grown& grown)>;
  // `fn` is called for each new checkpoint that is whole, `summary` with that of the job's end.
  void OnCheckpoint(CheckpointFn fn) { on_checkpoint_ = std::move(fn); }
  void OnSummary(std::function<void(const nlohmann::json&)> fn) { on_summary_ = std::move(fn); }
  PsSeen Look(const ParameterServer& ps) const;
  // Called when an exchange is answered; `before` is what the ps held when it arrived, and `after`
  // when its push had been entered.
  void Exchanged(const ParameterServer& ps, const ExchangeRequest& request,
                 const absl::StatusOr<ExchangeReply>& answer, const PsSeen& before,
                 const PsSeen& after);
  // Called after a ps has loaded its partitions, new ones or those of `checkpoint`.
  void Loaded(const Content& content, const std::string& checkpoint);
  // Called when a ps begins to obey this coordinator.
  void Adopted(uint64_t generation, const std::string& coordinator);

  // Called after every event: checks new checkpoints, and that the others have not changed.
  void LookAtDisk();
  // Called when a file of a checkpoint has been damaged on purpose.
  void Damaged(const std::string& checkpoint) { damaged_.insert(checkpoint); }
  // Returns the committed checkpoints that are whole, newest first.
  std::vector<std::string> Checkpoints() const;
  bool Complete() const;  // the final one is there
  void CheckEnd();

 private:
  struct Committed {
    CheckpointName name;
    std::map<std::string, uint64_t> files;  // hashes of their contents
    bool complete = false;
  };
  void CheckOutcomes(const BatchId& batch, const ExchangeReply& reply, const PsSeen& after);
  void CheckRejection(const ExchangeRequest& request, const Seen& was, const Seen& now);
  void CheckStaleness(const ExchangeRequest& request, bool applied);
  static std::string Difference(const Partition& partition, const StoredTensors& stored);
  bool Grows(uint32_t partition) const;
  absl::StatusOr<Grown> GrownIn(Files& files, const std::string& path,
                                const Manifest& manifest) const;
  std::string GrownDifference(const Partition& partition, const std::vector<float>& values,
                              const StoredTensors& stored) const;
  void CheckOrdered(const StoredTensors& partition, uint64_t elements);
  void CheckPartition(const std::string& where, uint32_t id, const Seen& seen);
  std::string CheckpointsDir() const { return CheckpointsDirectory(SimDir(world_)); }
  // Returns the directory of a checkpoint's files, or null if there is none.
  std::shared_ptr<SimInode> PsFilesOf(const std::string& checkpoint) const;
  // It has a manifest, and is not removed.
  bool IsThere(const std::string& checkpoint) const;
  void CheckNew(const std::string& name);
  void CheckDurable(const std::string& path, const SimInode& directory);
  std::map<std::string, uint64_t> HashFiles(const SimInode& directory) const;
  void CheckSummary(const Manifest& manifest);
  void Violation(const std::string& what) { world_.Violation(what); }
  uint64_t TotalBatches() const;

  SimWorld& world_;
  const Job job_;
  const CountingOptions counting_;
  const bool ordered_;
  const bool digits_;  // the values are sets of batches (plain SGD)
  uint64_t epochs_;
  DataPlan plan_;
  std::set<std::string> pulled_;                  // by worker, life of the ps and generation
  std::map<uint64_t, std::string> coordinators_;  // by generation
  std::map<std::string, Committed> committed_;    // that were ever seen
  std::set<std::string> damaged_;
  bool durable_ = false;  // one was
  CheckpointFn on_checkpoint_;
  std::function<void(const nlohmann::json&)> on_summary_;
};

}  // namespace paracord
