// Pulls that wait for a state (store/round_gate.h): the push of the step has been entered, and the
// values are read once every wanted partition has the state. The thread whose push completes the
// state answers the pulls that wait for it; the event loop answers pulls that time out. No thread
// blocks, and no lock is held during an answer. Owned by the ParameterServer, which shares it with
// stores; thread-safe.
//
// Invariants: each pull is answered once, or dropped when its caller goes away. No pull waits
// longer than kWaitMsMax. A pull that is sent again does not end the earlier one: otherwise two
// processes with the same task name would end each other's pulls for ever.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/gate.h"
#include "common/memory_budget.h"
#include "common/mutex.h"
#include "exchange/step.h"
#include "store/partition_set.h"
#include "store/pending_pull.h"
#include "store/round_gate.h"

namespace paracord {

class WaitingPulls : public SharedGate<WaitingPulls> {
 public:
  static constexpr size_t kPullsMax = 4096;
  static constexpr int64_t kWaitMsMax = 500;

  using Reply = std::function<void(absl::StatusOr<DecodedReply>)>;
  using WaitsFn = std::function<void()>;
  // Names a waiting pull.
  struct Ticket {
    uint64_t state = 0;
    uint64_t id = 0;  // 0: the pull has been answered and does not wait
    bool waits() const { return id != 0; }
  };

  // The memory of waiting pulls counts in `memory`. `loop` must live until Close.
  WaitingPulls(EventLoop& loop, std::shared_ptr<MemoryShare> memory);

  // Answers the pull, now if its state is there, or later; without values if the pull may not wait
  // or its worker has to carry norms. `content` must live until the answer and the return of this
  // function. `waits` is called before the pull begins to wait. RESOURCE_EXHAUSTED: too many pulls
  // wait, or they take too much memory; but a pull whose push was entered then gets an answer
  // without values, so that the push's outcome is not lost. ABORTED: the generation of `fence`
  // ended while the pull waited. OUT_OF_RANGE, in synchronous training: a partition no longer has
  // the state. Once closed, a pull that would wait gets the `why` of Close.
  Ticket Wait(const PartitionSet& content, const WantedState& wanted, const PushFence& fence,
              PendingPull pull, const Reply& reply, const WaitsFn& waits = {});
  // Called after a push of `batch` to all partitions of `content`: answers the pulls that need not
  // wait any more.
  void Entered(const PartitionSet& content, const PlanBatch& batch);
  // Called after norms have come and the round that completes `state` has been applied.
  void Reached(const PartitionSet& content, uint64_t state) { AnswerThose(content, state, state); }
  // Drops a pull whose caller has gone away.
  void Drop(const Ticket& ticket);

  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Answers all pulls with `why`. The caller must hold no lock.
  void EndAll(const absl::Status& why);
  // Answers the pulls whose fence is over with `why`. The caller must hold no lock.
  void EndOvertaken(const absl::Status& why);
  // Calls EndAll, and from then on answers every pull that would wait with `why`.
  void Close(const absl::Status& why);

 private:
  struct Pull;
  using Key = std::pair<uint64_t, uint64_t>;  // the state and the id of a ticket
  using PullPtr = std::shared_ptr<Pull>;
  class Gates;

  // Adds a pull to those that wait, or returns why it cannot (see Wait).
  absl::StatusOr<Ticket> Add(uint64_t state, const PullPtr& pull);
  // Takes the pull out of pulls_. Returns null if another thread has done so.
  PullPtr Remove(const Key& key);
  // What keeps the state of a pull from being read, or why it cannot be read any more.
  using Lack = absl::StatusOr<Partition::Lack>;
  // Whether the pull is to wait. Not if workers have to carry norms: an answer tells them.
  static bool Waits(const Pull& pull, const Lack& lack);
  static DecodedReply AnswerWithout(Pull& pull, Partition::Lack lack);
  static void Answer(Pull& pull, const Lack& lack);
  // Answers the pulls of `content` for states from `first` to `last` that need not wait any more.
  void AnswerThose(const PartitionSet& content, uint64_t first, uint64_t last);
  // Answers pulls that time out. Called on the loop.
  void AnswerOverdue();

  EventLoop& loop_;
  const std::shared_ptr<MemoryShare> memory_;  // thread-safe itself
  std::atomic<size_t> size_{0};                // the size of pulls_, to be read without the lock
  EventLoop::TimerId timer_ = 0;               // used on the loop alone

  Mutex mu_;
  std::map<Key, PullPtr> pulls_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_ms_ ABSL_GUARDED_BY(mu_) = INT64_MAX;  // no pull times out before this time
  absl::Status closed_ ABSL_GUARDED_BY(mu_);          // after Close: its `why`
};

}  // namespace paracord
