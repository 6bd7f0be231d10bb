// Which state (ExchangeRequest.state) the values must have that a worker computes a batch with,
// which state the values at hand have, and which lanes a pull waits for. Where staleness is bounded
// a later state does as well; in synchronous training no other state does. Without lanes any values
// do. Owned by the trainer, used on the loop. No I/O.
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
  // `staleness`: values may lack the batches of so many rounds before that of the batch. `sync`:
  // training is synchronous. `backup`: a round is late that has been waited for so many times
  // as long as a batch of this worker takes; nullopt: none ever is.
  RoundWait(const DataPlan& plan, uint32_t staleness, bool sync = false,
            std::optional<double> backup = std::nullopt)
      : plan_(plan),
        staleness_(staleness),
        sync_(sync && plan.lanes() != 0),
        backup_(sync_ ? backup : std::nullopt) {}

  // Returns the state that the values of a batch must have; nullopt if any do.
  std::optional<uint64_t> StateFor(const BatchId& batch) const;
  // Whether the values at hand have it.
  bool Reached(const BatchId& batch) const;
  // Returns the state to be asked for with values that batches of this worker are computed with,
  // which it has not pushed and which follow one another: as many of them as can have it before the
  // first one is pushed.
  std::optional<uint64_t> StateForAll(std::span<const BatchId> batches) const;

  // In synchronous training: the state that the push of a batch asks for. `next` is the batch that
  // the worker goes on with; nullopt: it does not know yet.
  uint64_t StateAfter(const BatchId& pushed, const std::optional<BatchId>& next) const;

  // A batch of this worker was computed, which took so long.
  void Computed(int64_t took_ms);
  // An exchange that asks for this state begins. Returns for how long its answer may wait; 0: as
  // long as any.
  uint32_t Ask(std::optional<uint64_t> state, int64_t now_ms);
  // Returns the lanes that a late round waits for; none if none is late.
  std::vector<uint32_t> Late(int64_t now_ms) const;

  // An exchange that asked for this state was answered, `took_ms` after it began. Returns for how
  // many of these somebody was waited for.
  int64_t Answered(std::optional<uint64_t> state, const ExchangeOutcome& outcome, int64_t took_ms);
  // There is something to compute, or nothing left to wait for.
  void Stop() { waited_ms_.reset(); }
  // Whether the last exchange that asked for a state was told to ask again.
  bool waits() const { return waited_ms_.has_value(); }
  // What is waited for, if that takes long; else "".
  std::string WaitsFor() const;

 private:
  // The state that all rounds of the job before that of the batch lead to.
  uint64_t StateBeforeRoundOf(const BatchId& batch) const {
    return StateBefore(plan_, batch.epoch(), batch.batch());
  }

  const DataPlan plan_;
  const uint32_t staleness_;
  const bool sync_;
  const std::optional<double> backup_;

  // When it was first asked for the greatest state that was asked for: lanes of the rounds before
  // are computed meanwhile.
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
