// Checks the invariants of a simulated cluster: compares a ps before and after each request, and
// looks at the disk after every event. Reports a violation to the world. Remembers everything
// through the deaths of simulated processes. Owned by SimCluster.
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

// Returns DIR of the job: a bucket if the world has an object store.
inline std::string SimDir(SimWorld& world) {
  return world.storage().objects().used ? "s3://bucket/job" : "/job";
}

class Oracle {
 public:
  // `epochs`: the job is done after this many epochs, fewer than the job says if it stops early.
  // `ordered`: one worker and no faults, so that batches are applied in the plan's order.
  Oracle(SimWorld& world, const Job& job, const CountingOptions& counting, uint64_t epochs,
         bool ordered);
  // Called when a finished job is resumed for more epochs.
  void GoOn(uint64_t epochs) { epochs_ = epochs; }
  const DataPlan& plan() const { return plan_; }

  // A partition of a ps at one instant.
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
  // The rows of growing partitions in a checkpoint that batches read, by partition.
  using Grown = std::map<uint32_t, std::vector<float>>;
  using CheckpointFn = std::function<void(
      const std::string& name, const std::vector<StoredTensors>& stored, const Grown& grown)>;
  // Sets callbacks: one for each new whole checkpoint, one for the summary at the job's end.
  void OnCheckpoint(CheckpointFn fn) { on_checkpoint_ = std::move(fn); }
  void OnSummary(std::function<void(const nlohmann::json&)> fn) { on_summary_ = std::move(fn); }
  PsSeen Look(const ParameterServer& ps) const;
  // Called when a ps answers an exchange. `before` is the state of the ps on arrival of the
  // request, `after` the state once the push was entered.
  void Exchanged(const ParameterServer& ps, const ExchangeRequest& request,
                 const absl::StatusOr<ExchangeReply>& answer, const PsSeen& before,
                 const PsSeen& after);
  // Called after a ps has created its partitions, or restored those of `checkpoint`.
  // `before`: what the ps held until then; null: nothing. It may go on with some of that.
  void Loaded(const PartitionSet& content, const std::string& checkpoint,
              const PartitionSet* before);
  // Called when a ps adopts the generation of `coordinator`.
  void Adopted(uint64_t generation, const std::string& coordinator);

  // Called after every event. Checks new checkpoints, and that older ones have not changed.
  void LookAtDisk();
  // Called when the test has damaged a file of `checkpoint`.
  void Damaged(const std::string& checkpoint) { damaged_.insert(checkpoint); }
  // Returns the committed checkpoints that are whole, newest first.
  std::vector<std::string> Checkpoints() const;
  bool Complete() const;  // the final checkpoint is committed
  void CheckEnd();

 private:
  struct Committed {
    CheckpointName name;
    std::map<std::string, uint64_t> files;  // hash of each file's contents
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
  // Returns the directory of a checkpoint's files, or null.
  std::shared_ptr<SimInode> PsFilesOf(const std::string& checkpoint) const;
  // Returns whether the checkpoint has a manifest and has not been removed.
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
  const bool digits_;  // plain SGD: the values are sets of batches
  uint64_t epochs_;
  DataPlan plan_;
  std::set<std::string> pulled_;                  // "worker boot-id generation" of every pull
  std::map<uint64_t, std::string> coordinators_;  // coordinator of each generation
  std::map<std::string, Committed> committed_;    // every checkpoint ever seen
  std::set<std::string> damaged_;
  bool durable_ = false;  // some checkpoint has been committed
  CheckpointFn on_checkpoint_;
  std::function<void(const nlohmann::json&)> on_summary_;
};

}  // namespace paracord
