// Decides which state (ExchangeRequest.state) a worker pulls to compute a batch, and tracks the
// state of the values at hand and the lanes that a pull waits for. With bounded staleness a later
// state will do as well; in synchronous training only the exact state will. Without lanes any
// values will. Owned by the trainer, used on the loop. No I/O.
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
  // `staleness`: values may lack the batches of so many rounds before the batch's own round.
  // `sync`: training is synchronous. `backup`: a round is late after a wait of so many times as
  // long as a batch of this worker takes; nullopt: no round is late.
  RoundWait(const DataPlan& plan, uint32_t staleness, bool sync = false,
            std::optional<double> backup = std::nullopt)
      : plan_(plan),
        staleness_(staleness),
        sync_(sync && plan.lanes() != 0),
        backup_(sync_ ? backup : std::nullopt) {}

  // Returns the state that a batch's values must have; nullopt: any state will do.
  std::optional<uint64_t> StateFor(const BatchId& batch) const;
  // Whether the values at hand have StateFor(batch).
  bool Reached(const BatchId& batch) const;
  // Returns the state to pull for consecutive batches of this worker that are not pushed yet:
  // enough for as many batches as can be computed before the first batch is pushed.
  std::optional<uint64_t> StateForAll(std::span<const BatchId> batches) const;

  // In synchronous training: returns the state that the push of a batch asks for. `next`: the batch
  // that the worker goes on with; nullopt: not known yet.
  uint64_t StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const;

  // A batch of this worker took `took_ms` to compute.
  void Computed(int64_t took_ms);
  // An exchange begins that asks for this state. Returns how long the ps may hold back an answer;
  // 0: the session decides.
  uint32_t Ask(std::optional<uint64_t> state, int64_t now_ms);
  // Returns the lanes that a late round waits for; empty if no round is late.
  std::vector<uint32_t> Late(int64_t now_ms) const;

  // An exchange that asked for this state was answered after `took_ms`. Returns how many ms of the
  // exchange were spent waiting for other workers.
  int64_t Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome, int64_t took_ms);
  // A batch is computed, or no lease is left, so the worker no longer waits.
  void Stop() { waited_ms_.reset(); }
  // Whether the ps told the last exchange to ask for its state again.
  bool waits() const { return waited_ms_.has_value(); }
  // Names the lanes that a pull has long waited for; "" if no pull waits long.
  std::string WaitsFor() const;

 private:
  // Returns the state after all rounds of the job before the batch's round.
  uint64_t StateBeforeRoundOf(const BatchId& batch) const {
    return StateBefore(plan_, batch.epoch(), batch.batch());
  }

  const DataPlan plan_;
  const uint32_t staleness_;
  const bool sync_;
  const std::optional<double> backup_;

  // When the greatest state was asked for first: the lanes of its rounds are computed meanwhile.
  int64_t PatienceMs() const;
  std::optional<uint64_t> asked_;
  int64_t asked_ms_ = 0;
  std::optional<double> batch_ms_;  // a mean in which the newest batches count most

  std::optional<uint64_t> reached_;   // state of the values at hand; nullopt: not known
  std::optional<int64_t> waited_ms_;  // nullopt: no exchange waits
  std::optional<uint64_t> wanted_;    // state
  std::vector<uint32_t> missing_;     // lanes
};

}  // namespace paracord
