// Sends gradients of a batch to the ps while the rest of the batch is computed. Final gradients,
// the last layers' first, leave as soon as they are worth a call (store/staged_pushes.h), and the
// exchange carries the rest and decides as always what becomes of the batch. Made on the loop for
// each batch; Add runs on the executor during the computation, everything else on the loop.
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

// A call to a ps is worth its cost from this many bytes of gradients on.
inline constexpr uint64_t kStagedPushBytes = 1 << 20;

struct StagedPushOptions {
  std::string task;
  int64_t deadline_ms = 10000;  // deadline of a call
  uint64_t bytes = kStagedPushBytes;
};

// By ps, the time in ms until which a ps without room gets no early gradients. Shared by the pushes
// of a session.
using StagedPushPauses = std::vector<int64_t>;

class StagedPushSender : public std::enable_shared_from_this<StagedPushSender> {
 public:
  // `links` are valid while the session's gate is open.
  StagedPushSender(StagedPushOptions options, std::shared_ptr<ParameterCopy> copy, uint32_t buffer,
                   std::vector<Link*> links, Environment environment, Gate::Pass session,
                   std::shared_ptr<StagedPushPauses> pauses);

  // The variable's gradient is final. False: the gradient is not finite, and nothing more is to be
  // added.
  bool Add(size_t variable);
  bool added(size_t variable) const { return added_[variable]; }

  // Returns what the exchange with a ps may leave out; nullptr: the exchange carries everything.
  const StagedGradients* For(uint32_t ps) const;
  // A ps has not kept the gradients: the exchange carries everything, and for a while no gradients
  // leave early for the ps.
  void Refused(uint32_t ps);
  // Whether calls may still be sending although no exchange needs them.
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
  std::vector<bool> sends_;  // index: ps; early gradients save time
  uint64_t enough_ = 0;      // bytes

  // Used on the executor.
  std::vector<bool> added_;
  std::vector<size_t> waiting_;
  uint64_t waiting_bytes_ = 0;
  uint64_t left_bytes_ = 0;  // bytes of gradients still to compute

  // Used on the loop.
  StagedGradients staged_;
  std::vector<bool> refused_;  // index: ps
};

}  // namespace paracord
