// Exchanges that wait because slow readers pin too much, or because the rows they pull do not fit
// beside what is pinned. A parked exchange has had no effect yet. The loop decides when exchanges
// resume; an executor runs them one at a time, in order of arrival. Owned by the ParameterServer,
// which parks an exchange; thread-safe.
//
// Invariants: each exchange is answered once, given up once, or dropped when its caller goes away.
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
  uint64_t needed = 0;  // bytes that the rows it pulls take; 0: nobody has looked at it
};

class ParkedExchanges : public SharedGate<ParkedExchanges> {
 public:
  // `answer` answers an exchange that goes on and returns 0, or returns the bytes for which there
  // is no room yet. It runs on `lane`.
  using AnswerFn = std::function<uint64_t(const ParkedExchange&)>;
  ParkedExchanges(EventLoop& loop, Executor& lane, Logger log, std::shared_ptr<PinnedBytes> pinned,
                  AnswerFn answer);

  // Resumes what is parked whenever the pinned bytes have fallen. Before the first Park.
  void Watch();
  // Parks an exchange, or refuses it if there are too many.
  void Park(const absl::Cord& request, const std::shared_ptr<ServerCall>& call, uint64_t needed);
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
  void Answer(ParkedExchange exchange);
  // The exchange that goes on next, if any.
  std::optional<uint64_t> NeededByNext() const;
  void LosePatience(int64_t waited_ms);

  EventLoop& loop_;
  Executor& lane_;
  const Logger log_;
  const std::shared_ptr<PinnedBytes> pinned_;  // thread-safe itself
  const AnswerFn answer_;
  std::atomic<int64_t> deadline_ms_;

  // On the loop alone.
  bool answering_ = false;
  EventLoop::TimerId patience_timer_ = 0;  // 0: nobody waits for slow readers
  int64_t waiting_since_ms_ = 0;           // while the timer runs
  std::optional<int64_t> warned_ms_;       // last warning: gave up waiting for slow readers
  std::optional<int64_t> warned_of_wait_ms_;

  mutable Mutex mu_;
  std::deque<ParkedExchange> parked_ ABSL_GUARDED_BY(mu_);  // the oldest first
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);  // why, if it is
};

}  // namespace paracord
