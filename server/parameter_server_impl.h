// The inside of ParameterServer (server/parameter_server.h), in six files: calls
// (parameter_server.cc, exchange_checks.cc), long orders (load_and_snapshot.cc, prepare.cc),
// leaving without an order (leaving.cc) and metrics (ps_metrics.cc). The lock mu_ guards little
// state, and is never held while a call is answered, a file is touched or a gradient is applied.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/gate.h"
#include "common/histogram.h"
#include "common/log.h"
#include "common/mutex.h"
#include "server/coordinator_watch.h"
#include "server/parameter_server.h"
#include "server/parked.h"
#include "server/pending_orders.h"
#include "storage/checkpoint.h"
#include "store/partition_set.h"
#include "store/staged_pushes.h"
#include "store/store.h"

namespace paracord {

// Figures for monitoring, since the process began.
struct ExchangeFigures {
  // `seconds`: from the start of Answer to the reply, or to a wait for other workers' pushes.
  // `waited_seconds`: how long such waits are.
  Histogram seconds{kSecondsBounds};
  Histogram waited_seconds{kSecondsBounds};
  std::atomic<uint64_t> received_bytes{0};
  std::atomic<uint64_t> sent_bytes{0};
  std::atomic<uint64_t> failed{0};  // exchanges that were answered with an error
  std::atomic<uint64_t> snapshots_failed{0};
  UpdateCounters updates;
};

using SnapshotResult = absl::StatusOr<SnapshotReply>;

class ParameterServer::Impl : public SharedGate<Impl> {
 public:
  Impl(PsOptions options, Environment environment, std::function<void(int, std::string)> exit);

  void Start();
  void Close();
  void Handle(std::string_view method, absl::Cord request, CallPtr call);
  void Drain();
  void LeaveUnlessPlaced(int code, const std::string& reason);
  HealthState Health() const;
  void AddMetrics(MetricSet& metrics) const;  // ps_metrics.cc
  std::shared_ptr<const PartitionSet> content() const {
    MutexLock lock(mu_);
    return content_;
  }
  uint64_t generation() const { return generation_; }
  const std::string& boot_id() const { return boot_id_; }

 private:
  static absl::Status Leaving();

  // ---- calls, parameter_server.cc
  void Exchange(const absl::Cord& request, const CallPtr& call);
  // Answers the exchange, now or when its pull has waited for pushes, and returns 0. If there is no
  // room for the rows to pull, does nothing and returns the bytes of the rows.
  uint64_t Answer(const absl::Cord& request, const CallPtr& call);
  struct Caller {
    double begun = 0;  // FigureSeconds() when Answer began
    CallPtr call;
  };
  void Carry(Caller caller, std::shared_ptr<const PartitionSet> content, DecodedRequest request,
             PinnedReservation reserved);
  void Refuse(const CallPtr& call, absl::Status why, bool counts);
  void Count(double begun, double waits_since, const absl::StatusOr<Parts>& reply);
  void Stage(const absl::Cord& request, const CallPtr& call);
  void ForgetStaged();
  void Describe(const DescribeRequest& request, const CallPtr& call);
  void Adopt(const AdoptRequest& request, const CallPtr& call);
  void AdoptIfClaimed(const AdoptRequest& request, const CallPtr& call);
  void AdoptNow(const AdoptRequest& request, const CallPtr& call);
  // Answers the calls of Adopt that wait (adoptions_) if no push is in flight. Any thread.
  void AnswerAdoptions();
  void Hold(const PsHoldRequest& request, const CallPtr& call);
  void Finish(const FinishRequest& request, const CallPtr& call);

  // ---- Load orders, load_and_snapshot.cc
  void Load(LoadRequest request, const CallPtr& call);
  void Keep(const LoadRequest& request, const CallPtr& call);
  void RunLoad(LoadRequest request, std::shared_ptr<const PartitionSet> held,
               const std::shared_ptr<PendingOrders::Loading>& loading);
  void Loaded(const std::shared_ptr<PendingOrders::Loading>& loading,
              absl::StatusOr<std::shared_ptr<const PartitionSet>> content);
  // Returns a file's error as the answer to an order: UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED
  // become UNKNOWN, because the caller would take them for the loss of the call.
  static absl::Status OfFiles(const absl::Status& status);

  // ---- prepare.cc
  void Prepare(LoadRequest request, const CallPtr& call);
  void EndPrepare(const std::shared_ptr<PreparedLoad>& load, const std::string& checkpoint,
                  const absl::Status& status);
  std::shared_ptr<PreparedLoad> TakePrepared();

  // ---- load_and_snapshot.cc
  void Snapshot(const SnapshotRequest& request, const CallPtr& call);
  void MakeTask(const SnapshotRequest& request, std::shared_ptr<const PartitionSet> content,
                Writing& writing) const;
  void TakeAndWrite(const SnapshotRequest& request, const std::shared_ptr<Writing>& writing);
  void TakeCut(const SnapshotRequest& request, const std::shared_ptr<Writing>& writing);
  void WriteTaken(const std::shared_ptr<Writing>& writing);
  void Give(Answers& answers);
  void Wrote(const std::shared_ptr<Writing>& writing, SnapshotResult reply);

  // ---- parameter_server.cc and exchange_checks.cc

  // Checks that a call is for this protocol, process and generation; with `held`, also that it is
  // for the run whose partitions the ps holds, if it holds any.
  absl::Status CheckFence(const Fence& fence, bool held) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Checks proofs with the coordinator's key: of a lease for a push, and for the norms of a round
  // (else PERMISSION_DENIED); of the rejection for a push as rejected (else INVALID_ARGUMENT).
  absl::Status CheckProofs(const ExchangeRequest& header) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Checks that a request with row ids has room, with 8 bytes more for each id; else returns a
  // LimitError. `bytes` is the size of the request.
  absl::Status CheckIds(const DecodedRequest& request, uint64_t bytes) const;
  // Checks that a single reply may hold rows of `bytes` bytes in all; else returns a LimitError.
  absl::Status CheckRows(uint64_t bytes) const;
  // Does CheckFence, and checks that an order is of the coordinator whose Adopt call the ps obeys.
  // If all is well, the call counts as one from the ps's coordinator (CoordinatorWatch::Heard).
  absl::Status CheckOrder(const Fence& fence, const std::string& coordinator, bool held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<const PartitionSet>> CheckContent(const Fence& fence) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends orders, holds and parked exchanges: adds their calls to `answers`, with `why` as the
  // answer. The caller destroys the result, the parked exchanges, without the lock.
  std::deque<ParkedExchange> VoidAll(const absl::Status& why, Answers& answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PsDescription Description(bool intervals);

  // ---- leaving without an order, leaving.cc
  void AwaitCoordinator();  // on the loop
  void SayIfUncalled();
  void HeardFromCoordinator();  // any thread
  void AskForCheckpoint();
  void ArmOrphanTimer(int64_t delay_ms);  // replaces the running timer
  void OrphanTimer();
  void LeaveWhenComplete(int64_t delay_ms);  // on the loop
  // Reads on the executor whether the job is done. If so, ends with code 0, or, unless `at_last`,
  // may first wait for a coordinator with more to do. If not, or if a coordinator has called
  // meanwhile, calls `otherwise` on the loop.
  void LeaveIfComplete(bool at_last, std::function<void()> otherwise);
  bool WaitsForMore(const JobEnd& end);  // on the loop
  // The job has ended with `code`: leaves, or with PsOptions::stay stays without a job.
  void End(int code, const std::string& reason);    // any thread
  void LetGo(int code, const std::string& reason);  // on the loop
  void Exit(int code, std::string reason);          // any thread

  // Constant after construction, or thread-safe.
  const PsOptions options_;
  const Environment environment_;
  const std::function<void(int, std::string)> exit_;
  const Logger log_;
  const std::string boot_id_;
  const std::shared_ptr<MemoryBudget> memory_;  // thread-safe
  const std::shared_ptr<PinnedBytes> pinned_;   // thread-safe
  StagedPushes staged_;                         // thread-safe
  std::atomic<bool> forgets_{false};            // a call of ForgetStaged is posted
  std::atomic<bool> other_dir_said_{false};

  ExchangeFigures figures_;                      // thread-safe
  std::shared_ptr<ParkedExchanges> parked_;      // thread-safe; made by Start
  const std::shared_ptr<WaitingPulls> waiting_;  // thread-safe

  // On the loop alone.
  bool exited_ = false;
  CoordinatorWatch watch_;
  EventLoop::TimerId orphan_timer_ = 0;

  mutable Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  // The boot id of the coordinator that a drain has asked for a checkpoint; "": none could be asked
  // yet; nullopt: AskForCheckpoint was not called yet.
  std::optional<std::string> checkpoint_asked_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> generation_ = 0;          // 0: no Adopt yet. Written under mu_
  std::string coordinator_ ABSL_GUARDED_BY(mu_);  // boot id of the coordinator that adopted the ps
  std::string proof_key_ ABSL_GUARDED_BY(mu_);    // key of coordinator_'s proofs
  std::shared_ptr<const PartitionSet> content_ ABSL_GUARDED_BY(mu_);
  PendingOrders orders_ ABSL_GUARDED_BY(mu_);
  std::optional<int> ended_ ABSL_GUARDED_BY(mu_);  // exit code of the job after which the ps stayed
  struct Holds {
    std::map<uint64_t, CallPtr> calls;  // key: a number that is never reused
    uint64_t last = 0;
  };
  Holds holds_ ABSL_GUARDED_BY(mu_);
  // Calls of Adopt that are answered when no push is in flight. `calls` is guarded by mu_.
  struct Adoptions {
    std::vector<CallPtr> calls;
    std::atomic<bool> any{false};
  };
  Adoptions adoptions_;
  // From the job of the last Load order: its timeouts, and PsSettings of the job.
  TimeoutsSpec timeouts_ ABSL_GUARDED_BY(mu_);
  std::string settings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
