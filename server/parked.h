// Exchanges that wait because slow readers pin too much. Nothing of them is looked at before they
// go on, in the order in which they came, on the loop. Owned by the ParameterServer, which parks
// one while the pinned bytes are above their limit; thread-safe.
//
// Invariants: each exchange is handed on once, given up once, or dropped when its caller goes away.
// Nobody waits without end: when readers keep what they pin for too long, it is forgiven.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "common/environment.h"
#include "common/gate.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "store/pinned_bytes.h"

namespace paracord {

// An exchange as it came.
struct ParkedExchange {
  uint64_t id = 0;
  absl::Cord request;
  std::shared_ptr<ServerCall> call;
};

class ParkedExchanges : public SharedGate<ParkedExchanges> {
 public:
  // `answer` takes each exchange that goes on, on the loop.
  ParkedExchanges(EventLoop& loop, Logger log, std::shared_ptr<PinnedBytes> pinned,
                  std::function<void(const ParkedExchange&)> answer);

  // Resumes what is parked whenever the pinned bytes have fallen. Before the first Park.
  void Watch();
  // Parks an exchange, or refuses it if there are too many.
  void Park(const absl::Cord& request, const std::shared_ptr<ServerCall>& call);
  // Exchanges have this long to be read, by the job that was loaded or kept.
  void SetDeadline(int64_t ps_ms) { deadline_ms_ = ps_ms; }

  size_t size() const;
  // Returns all that are parked: the caller answers them, and lets go of them without a lock.
  std::deque<ParkedExchange> TakeAll();
  // No exchange is parked any more: those that come are refused with `why`. TakeAll follows.
  void Close(absl::Status why);

 private:
  void PostResume();  // any thread
  void Resume();
  void LosePatience(int64_t waited_ms);

  EventLoop& loop_;
  const Logger log_;
  const std::shared_ptr<PinnedBytes> pinned_;  // thread-safe itself
  const std::function<void(const ParkedExchange&)> answer_;
  std::atomic<int64_t> deadline_ms_;

  // On the loop alone.
  EventLoop::TimerId patience_timer_ = 0;  // 0: nobody waits for slow readers
  int64_t waiting_since_ms_ = 0;           // while the timer runs
  std::optional<int64_t> warned_ms_;       // of slow readers that were waited for no longer
  std::optional<int64_t> warned_of_wait_ms_;

  mutable Mutex mu_;
  std::deque<ParkedExchange> parked_ ABSL_GUARDED_BY(mu_);  // the oldest first
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);  // why, if it is
};

}  // namespace paracord
