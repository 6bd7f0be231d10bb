// A store has the values of one run and applies steps of training to them. A ps has one; a process
// that is no daemon may have one, too. A step is checked completely before any byte changes,
// applied partition by partition, and answered with references to the values. Readers may see a
// step in some partitions and not yet in others: harmless, since each partition has its own ledger.
// A push checks its fence once and reaches all partitions or none. Thread-safe. The caller
// (server/) checks fences, too, and lets a new coordinator read the ledgers only when older pushes
// have ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "common/histogram.h"
#include "exchange/codec.h"
#include "exchange/step.h"
#include "store/partition_set.h"
#include "store/pending_pull.h"
#include "store/waiting_pulls.h"

namespace paracord {

// An update is what a push brings for one partition. `refused` and `stale` count whole pushes.
struct UpdateCounters {
  // Updates entered by a ledger or taken into the sum of a round, also of a rejected batch.
  std::atomic<uint64_t> applied{0};
  std::atomic<uint64_t> duplicates{0};      // dropped: the partition has all or some of the push
  std::atomic<uint64_t> gaps{0};            // dropped: the split lacks an earlier batch
  std::atomic<uint64_t> refused{0};         // pushes that failed the check
  std::atomic<uint64_t> stale{0};           // pushes whose generation was over when they came
  Histogram apply_seconds{kSecondsBounds};  // time to enter a push into all partitions
};

class Store {
 public:
  using Reply = WaitingPulls::Reply;

  // The arguments must outlive the store; `content` also has to outlive the answers to all steps.
  Store(const PartitionSet& content, UpdateCounters& counters, WaitingPulls& waiting)
      : content_(content), counters_(counters), waiting_(waiting) {}

  // Enters the norms and the push of a step, then reads the wanted values, after the push or at the
  // wanted state. `reply` is called once, unless the pull is dropped. If the pull has to wait,
  // `reply` comes later, perhaps on another thread, and the returned ticket lets the caller drop
  // the pull; the push has been entered when Apply returns. INVALID_ARGUMENT says what is wrong;
  // nothing has changed. ABORTED: the fence is over; the push has changed nothing, unless the pull
  // had to wait. RESOURCE_EXHAUSTED: there is no room for the push's rows in sums of rounds, and
  // the push has changed nothing; or, without a push, no room for another waiting pull.
  // OUT_OF_RANGE: the push, if any, has been entered, but the wanted state is gone. `reserved` has
  // RowBytes, reserved for the wanted rows; without it, their copies count when made. `waits` is
  // called before a pull begins to wait, when the request's memory is needed no more.
  using WaitsFn = WaitingPulls::WaitsFn;
  WaitingPulls::Ticket Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                             PinnedReservation reserved = {}, const WaitsFn& waits = {}) const;

  // Apply for an encoded request. INVALID_ARGUMENT also if it cannot be decoded.
  using EncodedReply = std::function<void(absl::StatusOr<Parts>)>;
  WaitingPulls::Ticket Exchange(DecodedRequest request, const PushFence& fence,
                                const EncodedReply& reply, PinnedReservation reserved = {},
                                const WaitsFn& waits = {}) const;

 private:
  // Checks the step, then enters its norms and its push.
  absl::StatusOr<PendingPull> Enter(StepRequest request, const PushFence& fence,
                                    PinnedReservation reserved) const;
  // Returns whether some ledger has entered the batch. The batch may also wait in a sum of a round.
  bool EnterPush(const CheckedStep& step, const PushFence& fence, PendingPull& pull) const;

  // INVALID_ARGUMENT: of a variable with all its partitions here, a worker's norms differ from the
  // squares; of another variable, they are less than the squares of the partitions here.
  absl::Status CheckOwnSquares(const RoundNorms& norms, const PushFence& fence) const;
  // Clips and applies the round that waits for `norms`. Returns whether any partition applied one.
  bool EnterNorms(const RoundNorms& norms, const PushFence& fence) const;
  // In a store with all trained partitions of the job: computes the norms, and if every partition
  // has the whole round, calls EnterNorms with them.
  bool EnterOwnNorms(uint64_t round, const PushFence& fence) const;

  const PartitionSet& content_;
  UpdateCounters& counters_;
  WaitingPulls& waiting_;
};

}  // namespace paracord
