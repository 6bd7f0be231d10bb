// The Load and the Snapshot that a ps carries out, and who waits for them: orders take long, and
// are repeated by a coordinator that has heard nothing. Owned by the ParameterServer, whose lock
// guards it.
//
// Invariants: one Load and one Snapshot are under way at most. A repeated order joins the one that
// runs. What a newer order or generation has overtaken is void: its callers are answered at once,
// and nobody acts on it when it comes back.
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
  std::optional<uint64_t> cut;  // the state that it is of, in synchronous training
  std::atomic<bool> voided{false};
  std::vector<CallPtr> waiting;
  std::shared_ptr<const PartitionSet> content;  // outlives the task
  std::unique_ptr<SnapshotTask> task;           // used on the executor
};

// Answers are collected under a lock and given after it. Then what is void is let go of, too.
struct Answers {
  std::vector<std::pair<CallPtr, absl::StatusOr<Parts>>> calls;
  std::vector<std::shared_ptr<Writing>> voided;
};

// Calls that may wait for the same thing; above, somebody repeats without waiting.
inline constexpr size_t kWaitingMax = 64;
absl::Status TooManyWait();

class PendingOrders {
 public:
  struct Loading {
    bool other_dir = false;  // than the coordinator's: nothing was loaded
    std::shared_ptr<KnownDamage> damage;
    std::vector<CallPtr> waiting;
  };

  bool loading() const { return loading_ != nullptr; }
  bool writing() const { return writing_ != nullptr; }
  bool IsUnderWay(const std::shared_ptr<Writing>& writing) const { return writing_ == writing; }
  bool any() const { return loading_ != nullptr || writing_ != nullptr; }

  // Begins a Load, which voids a Snapshot. Null: the call has joined the one that runs.
  absl::StatusOr<std::shared_ptr<Loading>> Load(const CallPtr& call, Answers& answers);
  // Begins the Snapshot of a round, unless a newer one was ordered. Null: the call has joined the
  // one that runs, or is answered with what was written.
  absl::StatusOr<std::shared_ptr<Writing>> Snapshot(uint64_t round, const CallPtr& call,
                                                    Answers& answers);
  // An order was carried out: whom to answer; nullopt if it is void.
  std::optional<std::vector<CallPtr>> EndLoad(const std::shared_ptr<Loading>& loading);
  std::optional<std::vector<CallPtr>> EndSnapshot(const std::shared_ptr<Writing>& writing,
                                                  const absl::StatusOr<SnapshotReply>& reply);

  // Voids what is under way. Its callers are to be answered with `why`.
  void VoidAll(const absl::Status& why, Answers& answers);
  // What is read beside the contents, for a move. Any thread may copy the pointer under the lock;
  // only the executor, which runs its work in order, uses the PreparedLoad. No generation voids it,
  // since nobody is served from it.
  struct Preparing {
    std::shared_ptr<PreparedLoad> load;
    std::vector<CallPtr> waiting;  // for the order that is carried out
    std::string wanted, prepared;  // the checkpoints of that order, and of the newest that is done
  };
  Preparing& preparing() { return preparing_; }

  // The snapshot that was written last is of no use any more.
  void ForgetWritten() { written_.reset(); }
  // Another coordinator may have got a copy of what was damaged.
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
  std::optional<Written> written_;  // the last round
  // Shared with Loads that are void and still run.
  std::shared_ptr<KnownDamage> damage_ = std::make_shared<KnownDamage>();
};

}  // namespace paracord
