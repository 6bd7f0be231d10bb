// A store keeps the values of one run and applies steps of training to them. A ps has one, and any
// process may have one without a daemon around it. A step is validated completely before any byte
// changes, applied partition by partition, and answered with references to the values. Others may
// see it in some partitions and not yet in others, which is harmless because each has its own
// ledger; but it looks at its fence once, and reaches all partitions or none. Any thread. Who lets
// steps in (server/) checks fences, too, and begins a new generation when pushes have ended.
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

// Updates are those of one partition each; a step has one for each partition that it names.
struct UpdateCounters {
  std::atomic<uint64_t> applied{0};     // updates, taken ones too, and batches entered without one
  std::atomic<uint64_t> duplicates{0};  // updates dropped by the partition's ledger
  std::atomic<uint64_t> gaps{0};        // updates whose split lacks an earlier batch
  std::atomic<uint64_t> refused{0};     // steps refused whole
  std::atomic<uint64_t> stale{0};       // steps whose generation ended before they were done
  Histogram apply_seconds{kSecondsBounds};  // of all updates of a step
};

class Store {
 public:
  using Reply = WaitingPulls::Reply;

  // All must live longer than the store, the content until all steps are answered.
  Store(const Content& content, UpdateCounters& counters, WaitingPulls& waiting)
      : content_(content), counters_(counters), waiting_(waiting) {}

  // Applies a step and reads what is wanted after it, or of the state that it wants. `reply` is
  // called once, perhaps later and on another thread: then a ticket of the pull that waits is
  // returned, whose caller may go away. A push has been entered when this returns. INVALID_ARGUMENT
  // names the partition and the reason, and nothing has changed. ABORTED: the step's generation is
  // over, and no partition was updated. RESOURCE_EXHAUSTED: there is no room for its rows in sums
  // of rounds, and nothing has changed. OUT_OF_RANGE: the push has been entered, and the state that
  // is wanted is gone (PendingPull). `reserved`: bytes for the rows that are wanted (RowBytes), or
  // none, and then they are counted. `waits` is called before a pull begins to wait: of the request
  // it needs nothing any more.
  using WaitsFn = WaitingPulls::WaitsFn;
  WaitingPulls::Ticket Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                             PinnedReservation reserved = {}, const WaitsFn& waits = {}) const;

  // Does what Apply does for a request as it travels.
  using EncodedReply = std::function<void(absl::StatusOr<Parts>)>;
  WaitingPulls::Ticket Exchange(DecodedRequest request, const PushFence& fence,
                                const EncodedReply& reply, PinnedReservation reserved = {},
                                const WaitsFn& waits = {}) const;

 private:
  // Checks the step, and enters its norms and its push.
  absl::StatusOr<PendingPull> Enter(StepRequest request, const PushFence& fence,
                                    PinnedReservation reserved) const;
  // Returns whether some partition has entered the batch; a sum that has taken it has not.
  bool EnterPush(const CheckedStep& step, const PushFence& fence, PendingPull& pull) const;

  // Checks norms that a worker has carried against the squares of the partitions that are here.
  absl::Status CheckOwnSquares(const RoundNorms& norms, const PushFence& fence) const;
  // Clips and applies the rounds that wait for these norms. Returns whether there were any.
  bool EnterNorms(const RoundNorms& norms, const PushFence& fence) const;
  // Does the same with norms of its own, in a store with all trained partitions of the job, once
  // all of them have the round.
  bool EnterOwnNorms(uint64_t round, const PushFence& fence) const;

  const Content& content_;
  UpdateCounters& counters_;
  WaitingPulls& waiting_;
};

}  // namespace paracord
