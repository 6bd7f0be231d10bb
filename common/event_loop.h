// The clock, and the single thread on which a role's control logic runs. Owned by main, or by the
// simulator, where time is virtual. Post and the clock may be used from any thread; PostAfter,
// Cancel and all posted functions run on the loop's thread. The loop does no I/O.
#pragma once

#include <cstdint>
#include <functional>

namespace paracord {

class Clock {
 public:
  virtual ~Clock() = default;
  // A steady clock with an arbitrary origin, for all deadlines and leases.
  virtual int64_t NowMs() const = 0;
  // The wall clock, in milliseconds since 1970, which may jump; for logs and manifests only.
  virtual int64_t UnixMs() const = 0;
};

class EventLoop : public Clock {
 public:
  using TimerId = uint64_t;  // never 0

  virtual void Post(std::function<void()> fn) = 0;
  // Runs `fn` once, not before `delay_ms` from now.
  virtual TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) = 0;
  // After Cancel returns (on the loop's thread) the timer's function will not run. Unknown ids and
  // fired timers are ignored.
  virtual void Cancel(TimerId id) = 0;
};

}  // namespace paracord
