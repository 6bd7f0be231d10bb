// The Load and the Snapshot that a ps carries out, and the calls that wait for the results: orders
// take long, and a coordinator repeats an order that is not answered. Owned by the ParameterServer,
// whose lock guards the object.
//
// Invariants: at most one Load and one Snapshot are under way. A repeated order joins the running
// order. A Snapshot becomes void when a Load or the Snapshot of a newer round is ordered; every
// order becomes void when a newer generation begins or the job ends. The callers of a void order
// are answered at once, and its result is dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc.h"
#include "proto/paracord.pb.h"
#include "storage/chain.h"
#include "store/partition_set.h"
#include "store/preparation.h"
#include "store/snapshot.h"

namespace paracord {

using CallPtr = std::shared_ptr<ServerCall>;

// A snapshot that is being taken or written.
struct Writing {
  uint64_t round = 0;
  std::optional<uint64_t> cut;  // in synchronous training, the state to save
  std::atomic<bool> voided{false};
  std::vector<CallPtr> waiting;
  std::shared_ptr<const PartitionSet> content;  // kept alive for `task`, which reads it
  std::unique_ptr<SnapshotTask> task;           // used on the executor
};

// Collected under a lock. After its release answers are sent, and void snapshots destroyed.
struct Answers {
  std::vector<std::pair<CallPtr, absl::StatusOr<Parts>>> calls;
  std::vector<std::shared_ptr<Writing>> voided;
};

// The most calls that wait for one order, and the most open holds; any more get TooManyWait.
inline constexpr size_t kWaitingMax = 64;
absl::Status TooManyWait();

class PendingOrders {
 public:
  struct Loading {
    bool other_dir = false;  // nothing was loaded: the coordinator uses another job directory
    std::shared_ptr<KnownDamage> damage;
    std::vector<CallPtr> waiting;
  };

  bool loading() const { return loading_ != nullptr; }
  bool writing() const { return writing_ != nullptr; }
  bool IsUnderWay(const std::shared_ptr<Writing>& writing) const { return writing_ == writing; }
  bool any() const { return loading_ != nullptr || writing_ != nullptr; }

  // Begins a Load. Null: the call has joined the running Load.
  absl::StatusOr<std::shared_ptr<Loading>> Load(const CallPtr& call, Answers& answers);
  // Begins the Snapshot of a round. Null: the call has joined the running Snapshot, or is answered
  // with the result of a finished one of the same round. ABORTED: a newer round was ordered before.
  absl::StatusOr<std::shared_ptr<Writing>> Snapshot(uint64_t round, const CallPtr& call,
                                                    Answers& answers);
  // The order is carried out. Returns the calls to answer; nullopt: the order is void.
  std::optional<std::vector<CallPtr>> EndLoad(const std::shared_ptr<Loading>& loading);
  std::optional<std::vector<CallPtr>> EndSnapshot(const std::shared_ptr<Writing>& writing,
                                                  const absl::StatusOr<SnapshotReply>& reply);

  // Makes the Load and the Snapshot under way void, with `why` as the answer to their calls.
  void VoidAll(const absl::Status& why, Answers& answers);
  // Partitions that are read beside the current ones, for a move or as second holder. Any thread
  // may copy the pointer under the lock; only the executor, which runs its work in order, reads or
  // writes the partitions. A new generation does not make a PreparedLoad void, because nothing is
  // served from it.
  struct Preparing {
    std::shared_ptr<PreparedLoad> load;
    std::vector<CallPtr> waiting;  // calls for the running order
    // The checkpoints of the running order and of the newest finished order.
    std::string wanted, prepared;
  };
  Preparing& preparing() { return preparing_; }

  // Forgets the snapshot that was written last.
  void ForgetWritten() { written_.reset(); }
  // Forgets which files are damaged: they may have been replaced before a new coordinator came.
  void ForgetDamage() { damage_ = std::make_shared<KnownDamage>(); }

 private:
  struct Written {
    uint64_t round = 0;
    SnapshotReply reply;
  };
  void VoidWriting(const absl::Status& why, Answers& answers);

  std::shared_ptr<Loading> loading_;
  std::shared_ptr<Writing> writing_;
  Preparing preparing_;
  std::optional<Written> written_;  // the result of the last finished Snapshot
  // Shared with void Loads that still run.
  std::shared_ptr<KnownDamage> damage_ = std::make_shared<KnownDamage>();
};

}  // namespace paracord
