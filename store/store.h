// A store keeps the values of one run and applies steps of training to them. A ps has one; any
// process may have one without a daemon. A step is validated completely before any byte changes,
// applied partition by partition, and answered with references to the values. Readers may see a
// step in some partitions and not yet in others: harmless, since each partition has its own ledger.
// A step checks its fence once and reaches all partitions or none. Any thread. The caller (server/)
// also checks fences, and begins a new generation when pushes have ended.
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

// Updates count partitions: a step has one for each partition that it names.
struct UpdateCounters {
  std::atomic<uint64_t> applied{0};         // updates, with taken ones and batches without gradient
  std::atomic<uint64_t> duplicates{0};      // updates dropped by the partition's ledger
  std::atomic<uint64_t> gaps{0};            // updates whose split lacks an earlier batch
  std::atomic<uint64_t> refused{0};         // steps refused whole
  std::atomic<uint64_t> stale{0};           // steps whose generation ended before they were done
  Histogram apply_seconds{kSecondsBounds};  // per step, over its updates
};

class Store {
 public:
  using Reply = WaitingPulls::Reply;

  // All must live longer than the store, the content until all steps are answered.
  Store(const PartitionSet& content, UpdateCounters& counters, WaitingPulls& waiting)
      : content_(content), counters_(counters), waiting_(waiting) {}

  // Applies a step and reads the wanted values after it, or at the wanted state. `reply` is called
  // once. If the pull has to wait, `reply` comes later, perhaps on another thread, and the returned
  // ticket lets the caller drop the pull. The push has been entered when Apply returns.
  // INVALID_ARGUMENT names the partition and the reason; nothing has changed. ABORTED: the step's
  // generation is over; no partition was updated. RESOURCE_EXHAUSTED: no room for the step's rows
  // in sums of rounds; nothing has changed. OUT_OF_RANGE: the push has been entered, but the wanted
  // state is gone (PendingPull). `reserved`: RowBytes, reserved for the wanted rows; if none, they
  // count when copied. `waits` is called before a pull begins to wait: the request's memory is
  // needed no more.
  using WaitsFn = WaitingPulls::WaitsFn;
  WaitingPulls::Ticket Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                             PinnedReservation reserved = {}, const WaitsFn& waits = {}) const;

  // Does what Apply does, for an encoded request.
  using EncodedReply = std::function<void(absl::StatusOr<Parts>)>;
  WaitingPulls::Ticket Exchange(DecodedRequest request, const PushFence& fence,
                                const EncodedReply& reply, PinnedReservation reserved = {},
                                const WaitsFn& waits = {}) const;

 private:
  // Checks the step, then enters norms and push.
  absl::StatusOr<PendingPull> Enter(StepRequest request, const PushFence& fence,
                                    PinnedReservation reserved) const;
  // Returns whether some partition has entered the batch; a sum that took it does not count.
  bool EnterPush(const CheckedStep& step, const PushFence& fence, PendingPull& pull) const;

  // Checks a worker's norms against the squares of the partitions here.
  absl::Status CheckOwnSquares(const RoundNorms& norms, const PushFence& fence) const;
  // Clips and applies the rounds that wait for these norms. Returns whether any did.
  bool EnterNorms(const RoundNorms& norms, const PushFence& fence) const;
  // Does the same with norms computed here, in a store with all trained partitions of the job, once
  // every partition has the whole round.
  bool EnterOwnNorms(uint64_t round, const PushFence& fence) const;

  const PartitionSet& content_;
  UpdateCounters& counters_;
  WaitingPulls& waiting_;
};

}  // namespace paracord
