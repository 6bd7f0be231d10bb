// One session of a worker: works off leases batch by batch (data and gradients on the executor,
// then one exchange with every ps) and scores pieces of the test data. With `overlap` the next
// batch is computed, on the values of the exchange before, while the exchange of this one is under
// way; what comes back is taken over when that is done. There is never more than one exchange and
// one computation. Owned by the Worker, used on the loop. It talks to the ps only; what it has to
// say to the coordinator goes through its callbacks.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/environment.h"
#include "common/trace.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/computation.h"
#include "worker/early_push.h"
#include "worker/parameter_copy.h"

namespace paracord {

struct TrainerCallbacks {
  std::function<void(const LeaseReport&)> report;
  std::function<void(const EvaluationReport&)> evaluated;
  std::function<void(std::string why)> stale;  // the session is over
  std::function<void()> wants_task;            // soon nothing will be left to do
};

// Since they were last taken; in the units of WorkRequest.
struct StepCounters {
  uint64_t computed = 0;
  uint64_t duplicates = 0;
  uint64_t samples = 0;
  double loss_sum = 0;
  uint64_t staleness_sum = 0;
};

struct TrainerOptions {
  std::string task;
  int64_t exchange_ms = 10000;  // deadline of one try
  uint32_t tries = 3;           // of one exchange, before the lease is given back
  TransferOptions transfer;
  bool overlap = false;
  uint64_t early_push_bytes = kEarlyPushBytes;
};

class Trainer {
 public:
  Trainer(TrainerOptions options, Session session, std::shared_ptr<Workload> workload,
          std::vector<Link*> links, Environment environment, TrainerCallbacks callbacks);
  ~Trainer();

  void Take(const Lease& lease);
  void Take(const EvaluationLease& lease);
  bool Idle() const;
  // True if a further lease would not wait long.
  bool WantsTask() const;
  // After the batch under way: gives back the leases, then runs `drained`.
  void Drain(std::function<void()> drained);
  StepCounters TakeCounters();
  // Which ps the exchange under way waits for, if that takes long; else "".
  std::string WaitsFor() const;
  // Ids of the leases and pieces of an evaluation at hand.
  std::vector<uint64_t> Holds() const;

 private:
  struct PsTries {
    uint32_t sent = 0;
    uint32_t no_room = 0;  // of these the ps had no room for; they cost no try
    int64_t no_room_since_ms = 0;
    bool answered = false;
    int64_t first_sent_ms = 0;
    std::string problem;        // of the last that failed
    bool staged = false;        // the last named what was sent early
    bool mapped = false;        // the last may be answered in memory of the ps
    int64_t begun = kTraceOff;  // the last
    // When the ps began to answer the last: the end of "push" and the beginning of "pull".
    std::shared_ptr<std::atomic<int64_t>> answering;
  };
  struct Exchange {
    ExchangeOrder order;
    std::shared_ptr<EarlyPush> early;  // what was sent before
    uint32_t open = 0;                 // ps that have not answered
    std::vector<PsTries> tries;        // by ps
    ExchangeOutcome outcome;
    absl::Status error;
    bool repeated = false;  // some call may still be sending
    std::function<void()> done;
    std::vector<std::pair<uint32_t, absl::Cord>> parked;  // replies of ps
  };

  void MakeCopy();
  void Next();
  void StepLease();
  void Compute(const std::shared_ptr<Computation>& computation, std::function<void()> done);
  void Computed(const std::shared_ptr<Computation>& computation);
  void GiveUp(const Computation& computation, Problem problem, const std::string& message);
  void Encode(const std::shared_ptr<Computation>& computation);
  void Ready(const Computation& computation);
  void Push(const BatchId& batch, bool rejected, uint32_t buffer, std::shared_ptr<EarlyPush> early);
  void ComputeAhead();
  void ComputedAhead();
  void DropAhead();
  std::optional<BatchId> BatchAfter(const BatchId& batch) const;
  void Pushed(const BatchId& batch);
  void EndLease(Problem problem, const std::string& message);
  void Report(bool ended, Problem problem, const std::string& message);
  void StartEvaluation();
  void RunEvaluation();
  void StartExchange(ExchangeOrder order, std::function<void()> done,
                     std::shared_ptr<EarlyPush> early = nullptr);
  void Send(uint32_t ps);
  void TracePush(uint32_t ps) const;
  void TracePull(uint32_t ps) const;
  void Answered(uint32_t ps, absl::StatusOr<absl::Cord> reply);
  std::optional<int64_t> RetryAfter(PsTries& tries, const absl::Status& error) const;
  void FinishExchange();

  const TrainerOptions options_;
  const Session session_;
  const std::shared_ptr<Workload> workload_;
  const std::vector<Link*> links_;
  const Environment environment_;
  const TrainerCallbacks callbacks_;
  const std::shared_ptr<bool> alive_;
  const bool pushes_early_;
  const std::shared_ptr<EarlyPushPauses> early_pauses_;

  std::shared_ptr<ParameterCopy> copy_;  // shared with the executor, which makes it

  std::deque<Lease> leases_;  // the first is worked on
  uint32_t next_batch_ = 0;
  uint32_t examples_ = 0;  // of the batch under way
  std::deque<EvaluationLease> evaluations_;
  bool busy_ = false;                        // a batch, an evaluation or the making of the copy
  bool pulled_ = false;                      // the copy is as new as the last exchange
  std::optional<uint64_t> evaluated_epoch_;  // the epoch whose parameters the copy has
  uint64_t exchange_id_ = 0;
  Exchange exchange_;
  std::shared_ptr<Computation> ahead_;  // of the batch after the one that is exchanged
  bool computing_ahead_ = false;        // the values are being read
  std::function<void()> drained_;
  StepCounters counters_;
};

}  // namespace paracord
