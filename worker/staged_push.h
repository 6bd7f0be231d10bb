// The gradients of one batch on their way to the ps while others are still computed: those that are
// final, the last layers' first, are sent as soon as they are worth a call (store/staged_pushes.h),
// and the exchange carries the rest. What becomes of the batch is decided as always, by the
// exchange. Made on the loop for each batch; Add runs on the executor while the batch is computed,
// everything else on the loop.
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

// The gradients of one ps are worth a call when they have this many bytes.
inline constexpr uint64_t kStagedPushBytes = 1 << 20;

struct StagedPushOptions {
  std::string task;
  int64_t deadline_ms = 10000;  // of a call
  uint64_t bytes = kStagedPushBytes;
};

// Until when nothing leaves early for a ps that had no room, by ps, in ms. Of a session.
using StagedPushPauses = std::vector<int64_t>;

class StagedPushSender : public std::enable_shared_from_this<StagedPushSender> {
 public:
  // `links`: they are there while the session's gate is open.
  StagedPushSender(StagedPushOptions options, std::shared_ptr<ParameterCopy> copy, uint32_t buffer,
                   std::vector<Link*> links, Environment environment, Gate::Pass session,
                   std::shared_ptr<StagedPushPauses> pauses);

  // The variable's gradient is final. False: it is not finite, and nothing more is to be added.
  bool Add(size_t variable);
  bool added(size_t variable) const { return added_[variable]; }

  // Returns what the exchange with that ps need not carry; nullptr if it carries everything.
  const StagedGradients* For(uint32_t ps) const;
  // Called when that ps has not kept it: the exchange carries all, and for a while nothing leaves
  // early.
  void Refused(uint32_t ps);
  // Calls may still be sending when no exchange has need of them.
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
  std::vector<bool> sends_;  // by ps: there is something to be gained
  uint64_t enough_ = 0;      // bytes

  // These belong to the executor.
  std::vector<bool> added_;
  std::vector<size_t> waiting_;
  uint64_t waiting_bytes_ = 0;
  uint64_t left_bytes_ = 0;  // that are still computed

  // These belong to the loop.
  StagedGradients staged_;
  std::vector<bool> refused_;  // by ps
};

}  // namespace paracord
