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
  // training is synchronous.
  RoundWait(const DataPlan& plan, uint32_t staleness, bool sync = false)
      : lanes_(plan.lanes() != 0),
        rounds_(std::max(RoundsPerEpoch(plan), 1u)),
        staleness_(staleness),
        sync_(sync && lanes_) {}

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
  const bool lanes_;
  const uint64_t rounds_;  // of an epoch
  const uint32_t staleness_;
  const bool sync_;

  std::optional<uint64_t> reached_;   // state of the values at hand; nullopt: not known
  std::optional<int64_t> waited_ms_;  // nullopt: no exchange waits
  std::optional<uint64_t> wanted_;    // state
  std::vector<uint32_t> missing_;     // lanes
};

}  // namespace paracord
