// Pulls that wait for a state (store/round_gate.h): the push of their step has been entered, and
// values are read once every partition that is wanted has the state. The thread whose push brings
// them there answers them, and the loop those whose time is over. No thread blocks, and no lock is
// held while one of them is answered. Owned by the ParameterServer, which shares it with stores;
// thread-safe.
//
// Invariants: each pull is answered once, or dropped when its caller goes away. None waits longer
// than kWaitMsMax. A pull that is asked for again does not end the one before it: two lives of a
// task would answer each other for ever.
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
  // Names a pull that waits.
  struct Ticket {
    uint64_t state = 0;
    uint64_t id = 0;  // 0: it does not wait, because it has been answered
    bool waits() const { return id != 0; }
  };

  // What waits counts in `memory`. The loop has to live until Close.
  WaitingPulls(EventLoop& loop, std::shared_ptr<MemoryShare> memory);

  // Answers the pull, now if its state has come, or later. `content` has to live until this has
  // returned and the pull is answered. `waits` is called before it waits. RESOURCE_EXHAUSTED: too
  // many wait, or they take too much; one whose push has been entered is answered without values
  // then, so that its outcome is not lost. ABORTED: the generation of `fence` is over.
  // OUT_OF_RANGE, in synchronous training: a partition no longer has the state.
  Ticket Wait(const Content& content, const WantedState& wanted, const PushFence& fence,
              PendingPull pull, const Reply& reply, const WaitsFn& waits = {});
  // A batch has been entered in all partitions of `content`, in synchronous training with all of
  // its round: answers the pulls that waited for it.
  void Entered(const Content& content, const PlanBatch& batch);
  // A round has been applied, which makes this state.
  void Reached(const Content& content, uint64_t state) { AnswerThose(content, state, state); }
  // The caller of a pull has gone away.
  void Drop(const Ticket& ticket);

  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Answers all with `why`. Without a lock of the caller's.
  void EndAll(const absl::Status& why);
  // Answers those whose generation is over with `why`. Without a lock of the caller's.
  void EndOvertaken(const absl::Status& why);
  // Pulls that come from now on are refused with `why`, too.
  void Close(const absl::Status& why);

 private:
  struct Pull;
  using Key = std::pair<uint64_t, uint64_t>;  // state and id
  using PullPtr = std::shared_ptr<Pull>;
  class Gates;

  // Adds a pull, unless there is an error.
  absl::StatusOr<Ticket> Add(uint64_t state, const PullPtr& pull);
  // Takes the pull out: null if somebody else has.
  PullPtr Remove(const Key& key);
  // What keeps a pull waiting (Gates).
  using Lack = absl::StatusOr<Partition::Lack>;
  // False where workers have to carry norms, which they are told by an answer without values.
  static bool Waits(const Pull& pull, const Lack& lack);
  static DecodedReply AnswerWithout(Pull& pull, Partition::Lack lack);
  static void Answer(Pull& pull, const Lack& lack);
  // Looks at the pulls for states from `first` to `last`, and answers those that need not wait.
  void AnswerThose(const Content& content, uint64_t first, uint64_t last);
  // Answers those whose time is over. On the loop.
  void AnswerOverdue();

  EventLoop& loop_;
  const std::shared_ptr<MemoryShare> memory_;  // thread-safe itself
  std::atomic<size_t> size_{0};                // of pulls_, for who has no lock
  EventLoop::TimerId timer_ = 0;               // on the loop alone

  Mutex mu_;
  std::map<Key, PullPtr> pulls_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_ms_ ABSL_GUARDED_BY(mu_) = INT64_MAX;  // no pull's time is over before
  absl::Status closed_ ABSL_GUARDED_BY(mu_);          // why, if it is
};

}  // namespace paracord
