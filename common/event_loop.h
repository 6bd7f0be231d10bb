// The clock and the one thread on which a role's control logic runs. Owned by main (or by the
// simulator, where time is virtual). Post may be called from any thread; everything else, and every
// function posted, runs on the loop's own thread. It does no I/O.
#pragma once

#include <cstdint>
#include <functional>

namespace paracord {

class Clock {
 public:
  virtual ~Clock() = default;
  // Steady, from an arbitrary start. All deadlines and leases use this.
  virtual int64_t NowMs() const = 0;
  // Wall clock since 1970, for logs and manifests only: it may jump.
  virtual int64_t UnixMs() const = 0;
};

class EventLoop : public Clock {
 public:
  using TimerId = uint64_t;  // never 0

  virtual void Post(std::function<void()> fn) = 0;
  // Runs `fn` once, not before `delay_ms` from now.
  virtual TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) = 0;
  // After this returns (on the loop's thread) the timer's function will not run. Unknown ids and
  // timers that have fired are ignored.
  virtual void Cancel(TimerId id) = 0;
};

}  // namespace paracord
