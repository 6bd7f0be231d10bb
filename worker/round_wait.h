// Decides which state (ExchangeRequest.state) a worker pulls to compute a batch. Remembers the
// state of the values that the worker has, and the lanes that a pull waits for. A state is the
// number of the job's rounds whose batches the values have. In synchronous training a batch needs
// values of one state; with bounded staleness values of that or a later state of the same epoch;
// without lanes values of any state. Owned by the trainer, used on the event loop. No I/O.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/data_plan.h"
#include "proto/paracord.pb.h"
#include "worker/parameter_session.h"

namespace paracord {

class RoundWait {
 public:
  // `staleness`: how many of the rounds just before a batch's round the values may lack. `sync`:
  // training is synchronous. `backup`: a round is late after a wait of `backup` times this worker's
  // mean time for a batch; nullopt: no round is ever late.
  RoundWait(const DataPlan& plan, uint32_t staleness, bool sync = false,
            std::optional<double> backup = std::nullopt)
      : plan_(plan),
        staleness_(staleness),
        sync_(sync && plan.lanes() != 0),
        backup_(sync_ ? backup : std::nullopt) {}

  // Returns the state that the values for a batch must have; nullopt: any state.
  std::optional<uint64_t> StateFor(const BatchId& batch) const;
  // Whether the batch can be computed with the values that the worker has.
  bool Reached(const BatchId& batch) const;
  // Returns the state to pull before computing `batches`, the next batches of this worker: the
  // latest StateFor of those that do not need a push of this worker first.
  std::optional<uint64_t> StateForAll(std::span<const BatchId> batches) const;

  // In synchronous training: returns the state that the exchange of a push asks for. `next`: the
  // batch that this worker computes next; nullopt: not known yet.
  uint64_t StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const;

  // A batch of this worker took `took_ms` to compute.
  void Computed(int64_t took_ms);
  // An exchange that asks for this state begins. Returns ExchangeOrder::wait_ms for it.
  uint32_t Ask(std::optional<uint64_t> state, int64_t now_ms);
  // Returns the missing lanes of a late round; empty if no round is late.
  std::vector<uint32_t> Late(int64_t now_ms) const;

  // An exchange that asked for this state was answered after `took_ms`. Returns `took_ms` if the
  // state was awaited in this exchange or in the one before, otherwise 0.
  int64_t Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome, int64_t took_ms);
  // The worker no longer waits, because a computation begins or because no lease is left.
  void Stop() { waited_ms_.reset(); }
  // Whether the last pull brought no values of the state, so that the worker has to pull again.
  bool waits() const { return waited_ms_.has_value(); }
  // Names, for people, the round and the lanes that pulls have long waited for; "": none.
  std::string WaitsFor() const;

 private:
  // Returns the state that has all rounds of the job before the batch's round and no other.
  uint64_t StateBeforeRoundOf(const BatchId& batch) const {
    return StateBefore(plan_, batch.epoch(), batch.batch());
  }

  const DataPlan plan_;
  const uint32_t staleness_;
  const bool sync_;
  const std::optional<double> backup_;

  // Returns after how many ms of waiting a round is late.
  int64_t PatienceMs() const;
  std::optional<uint64_t> asked_;   // the greatest state that was asked for
  int64_t asked_ms_ = 0;            // when asked_ was first asked for
  std::optional<double> batch_ms_;  // the mean time for a batch; the newest batches count most

  std::optional<uint64_t> reached_;   // the state of the worker's values; nullopt: not known
  std::optional<int64_t> waited_ms_;  // how long pulls have waited in vain; nullopt: none waits
  std::optional<uint64_t> wanted_;    // the state of the last pull that waited in vain
  std::vector<uint32_t> missing_;     // the lanes that this pull waited for
};

}  // namespace paracord
