// Decides which state (ExchangeRequest.state) a worker pulls to compute a batch, and tracks the
// state of the values at hand and the lanes that a pull waits for. A state is a number of rounds of
// the job, which the values have. In synchronous training a batch needs an exact state; with
// bounded staleness a later state of the same epoch will do as well; without lanes any values will.
// Owned by the trainer, used on the event loop. No I/O.
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
  // `staleness`: the values may lack the last so many rounds before the batch's round. `sync`:
  // training is synchronous. `backup`: a round is late after a wait of so many times the time that
  // this worker takes for a batch; nullopt: no round is late.
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
  // Returns the state to pull for consecutive batches of this worker that are not pushed yet: the
  // state for as many of them as can be computed before the first is pushed.
  std::optional<uint64_t> StateForAll(std::span<const BatchId> batches) const;

  // In synchronous training: returns the state that the push of a batch asks for. `next`: the next
  // batch of this worker; nullopt: not known yet.
  uint64_t StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const;

  // A batch of this worker took `took_ms` to compute.
  void Computed(int64_t took_ms);
  // An exchange that asks for this state begins. Returns how many ms the ps may hold back an
  // answer; 0: as many as the ParameterSession likes.
  uint32_t Ask(std::optional<uint64_t> state, int64_t now_ms);
  // Returns the lanes that a late round waits for; empty if no round is late.
  std::vector<uint32_t> Late(int64_t now_ms) const;

  // An exchange that asked for this state was answered after `took_ms`. Returns how many ms of the
  // exchange were spent waiting for other workers: all or none.
  int64_t Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome, int64_t took_ms);
  // A computation begins, or no lease is left, so the worker no longer waits.
  void Stop() { waited_ms_.reset(); }
  // Whether the last state asked for was not there, so that the worker has to ask again.
  bool waits() const { return waited_ms_.has_value(); }
  // Names the round and lanes that a pull has long waited for, for people; "": no pull waits long.
  std::string WaitsFor() const;

 private:
  // Returns the state with all rounds of the job before the batch's round.
  uint64_t StateBeforeRoundOf(const BatchId& batch) const {
    return StateBefore(plan_, batch.epoch(), batch.batch());
  }

  const DataPlan plan_;
  const uint32_t staleness_;
  const bool sync_;
  const std::optional<double> backup_;

  // Returns the wait after which a round is late.
  int64_t PatienceMs() const;
  std::optional<uint64_t> asked_;   // the greatest state that was asked for
  int64_t asked_ms_ = 0;            // when asked_ was first asked for
  std::optional<double> batch_ms_;  // the mean time for a batch; the newest batches count most

  std::optional<uint64_t> reached_;   // the state of the values at hand; nullopt: not known
  std::optional<int64_t> waited_ms_;  // how long pulls have waited; nullopt: none waits
  std::optional<uint64_t> wanted_;    // the state that the last waiting pull asked for
  std::vector<uint32_t> missing_;     // the lanes that this pull waits for
};

}  // namespace paracord
