// Sends gradients of a batch to the ps while other gradients of the batch are still computed:
// complete gradients leave as soon as together they are worth a call. The ps only keep them
// (store/staged_pushes.h); the exchange carries the other gradients, and enters the batch. Made for
// one batch. Add and added run on the executor, everything else on the event loop.
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

// How many bytes of gradients are worth the cost of a call to a ps.
inline constexpr uint64_t kStagedPushBytes = 1 << 20;

struct StagedPushOptions {
  std::string task;                   // the worker's task, such as "worker:1"
  int64_t deadline_ms = 10000;        // the deadline of a call
  uint64_t bytes = kStagedPushBytes;  // how many bytes are worth a call to a ps, on average
};

// For each ps the time (EventLoop::NowMs) until which no gradients are sent to it before the
// exchange, because the ps has refused some. Shared by all StagedPushSenders of a session.
using StagedPushPauses = std::vector<int64_t>;

class StagedPushSender : public std::enable_shared_from_this<StagedPushSender> {
 public:
  // `buffer` of `copy` is for the batch. `links`: one for each ps, valid while `session` is open.
  StagedPushSender(StagedPushOptions options, std::shared_ptr<ParameterCopy> copy, uint32_t buffer,
                   std::vector<Link*> links, Environment environment, Gate::Pass session,
                   std::shared_ptr<StagedPushPauses> pauses);

  // A variable's gradient is complete. False: the gradient is not finite, and Add must not be
  // called again for this batch.
  bool Add(size_t variable);
  bool added(size_t variable) const { return added_[variable]; }

  // Returns the gradients that the exchange with `ps` leaves out; nullptr: none.
  const StagedGradients* For(uint32_t ps) const;
  // `ps` has not kept gradients: the exchange with `ps` carries all gradients, and for 30 s no
  // gradients are sent to `ps` before an exchange.
  void Refused(uint32_t ps);
  // Whether a ps has refused gradients, so that calls may still be sending after the exchange.
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
  std::vector<bool> sends_;  // index: ps; true: gradients are sent to it before the exchange
  uint64_t enough_ = 0;      // how many bytes of gradients in waiting_ are worth calls to all ps

  // Used on the executor.
  std::vector<bool> added_;      // index: variable
  std::vector<size_t> waiting_;  // variables whose gradient is complete but not sent yet
  uint64_t waiting_bytes_ = 0;
  uint64_t left_bytes_ = 0;  // bytes of gradients still to compute

  // Used on the event loop.
  StagedGradients staged_;
  std::vector<bool> refused_;  // index: ps
};

}  // namespace paracord
