// Sends gradients of a batch to the ps while other gradients of the batch are still computed:
// complete gradients, of the last layers first, leave as soon as they are worth a call. The ps only
// keep these (store/staged_pushes.h): the exchange carries the rest, and enters the batch. Made for
// each batch; Add and added run on the executor, everything else on the event loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/environment.h"
#include "common/gate.h"
#include "common/rpc.h"
#include "worker/parameter_copy.h"

namespace paracord {

// So many bytes of gradients are worth the cost of a call to a ps.
inline constexpr uint64_t kStagedPushBytes = 1 << 20;

struct StagedPushOptions {
  std::string task;                   // the worker's, "worker:1"
  int64_t deadline_ms = 10000;        // the deadline of a call
  uint64_t bytes = kStagedPushBytes;  // what a call to each ps has to carry, on average
};

// For each ps the time (EventLoop::NowMs) until which no gradients are sent to it before the
// exchange, because the ps has refused some. Shared by all pushes of a session.
using StagedPushPauses = std::vector<int64_t>;

class StagedPushSender : public std::enable_shared_from_this<StagedPushSender> {
 public:
  // `buffer` of `copy` has the gradients. `links`: one for each ps, valid while `session` is open.
  StagedPushSender(StagedPushOptions options, std::shared_ptr<ParameterCopy> copy, uint32_t buffer,
                   std::vector<Link*> links, Environment environment, Gate::Pass session,
                   std::shared_ptr<StagedPushPauses> pauses);

  // A variable's gradient is complete. False: it is not finite, and Add must not be called again.
  bool Add(size_t variable);
  bool added(size_t variable) const { return added_[variable]; }

  // Returns the gradients that the exchange with `ps` leaves out; nullptr: none.
  const StagedGradients* For(uint32_t ps) const;
  // `ps` has not kept gradients: its exchange carries all, and later ones do, too, for 30 s.
  void Refused(uint32_t ps);
  // Whether a ps has refused, so that calls may still be sending when the exchange has ended.
  bool any_refused() const;
  bool any_sent() const { return !staged_.id.empty(); }

 private:
  void Send(const std::vector<size_t>& variables);

  const StagedPushOptions options_;
  const std::shared_ptr<ParameterCopy> copy_;
  const uint32_t buffer_;
  const std::vector<Link*> links_;
  const Environment environment_;
  const Gate::Pass session_;
  const std::shared_ptr<StagedPushPauses> pauses_;
  std::vector<bool> sends_;  // index: ps; gradients are sent to it before the exchange
  uint64_t enough_ = 0;      // bytes of waiting gradients that are sent

  // Used on the executor.
  std::vector<bool> added_;      // index: variable
  std::vector<size_t> waiting_;  // complete gradients that were not sent yet
  uint64_t waiting_bytes_ = 0;
  uint64_t left_bytes_ = 0;  // bytes of gradients still to compute

  // Used on the event loop.
  StagedGradients staged_;
  std::vector<bool> refused_;  // index: ps
};

}  // namespace paracord
