// Exchanges that wait because replies that clients read slowly hold (pin) too many bytes, or
// because the rows to pull do not fit beside the pinned bytes. A parked exchange has had no effect
// yet. The loop decides when exchanges resume; an executor runs them one at a time, in order of
// arrival. Owned by the ParameterServer, which parks exchanges; thread-safe.
//
// Invariants: each exchange is answered once, returned by TakeAll, or dropped when the caller goes
// away. Every wait ends: after a time (SetDeadline) the pinned bytes no longer count.
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

// A request of an exchange, unchanged.
struct ParkedExchange {
  uint64_t id = 0;
  absl::Cord request;
  std::shared_ptr<ServerCall> call;
  uint64_t needed = 0;  // bytes of the rows to pull; 0: not known
};

class ParkedExchanges : public SharedGate<ParkedExchanges> {
 public:
  // `answer` answers an exchange and returns 0, or returns how many bytes of rows have no room yet.
  // It runs on the executor `lane`.
  using AnswerFn = std::function<uint64_t(const ParkedExchange&)>;
  // `refuse` answers an exchange with an error. It runs on any thread.
  using RefuseFn = std::function<void(const std::shared_ptr<ServerCall>&, absl::Status)>;
  ParkedExchanges(EventLoop& loop, Executor& lane, Logger log, std::shared_ptr<PinnedBytes> pinned,
                  AnswerFn answer, RefuseFn refuse);

  // From now on resumes parked exchanges when the pinned bytes fall. Called before the first Park.
  void Watch();
  // Parks an exchange, or refuses the exchange if too many are parked.
  void Park(const absl::Cord& request, const std::shared_ptr<ServerCall>& call, uint64_t needed);
  // Sets the deadline of an exchange, timeouts.ps_ms of the job. Too many bytes may be pinned for
  // twice as long.
  void SetDeadline(int64_t ps_ms) { deadline_ms_ = ps_ms; }

  size_t size() const;
  // Returns all parked exchanges, for the caller to answer and destroy without a lock.
  std::deque<ParkedExchange> TakeAll();
  // From now on Park refuses exchanges with `why`. The caller then calls TakeAll.
  void Close(absl::Status why);

 private:
  void PostResume();  // any thread
  void Resume();
  void Answer(ParkedExchange exchange);
  // Returns `needed` of the oldest parked exchange; nullopt: none is parked.
  std::optional<uint64_t> NeededByNext() const;
  void LosePatience(int64_t waited_ms);

  EventLoop& loop_;
  Executor& lane_;
  const Logger log_;
  const std::shared_ptr<PinnedBytes> pinned_;  // thread-safe
  const AnswerFn answer_;
  const RefuseFn refuse_;
  std::atomic<int64_t> deadline_ms_;

  // On the loop alone.
  bool answering_ = false;
  EventLoop::TimerId patience_timer_ = 0;  // 0: no exchange waits
  int64_t waiting_since_ms_ = 0;           // when the wait began, while patience_timer_ runs
  std::optional<int64_t> warned_ms_;       // last warning that readers hold bytes too long
  std::optional<int64_t> warned_of_wait_ms_;

  mutable Mutex mu_;
  std::deque<ParkedExchange> parked_ ABSL_GUARDED_BY(mu_);  // the oldest first
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);  // `why` of Close; OK: not closed
};

}  // namespace paracord
