// A clock, and the single thread on which the control logic of a role runs. In the simulation the
// time of the clock is virtual. Post and the functions of Clock may be called from any thread.
// PostAfter and Cancel must be called on the loop's thread, which runs all posted functions.
#pragma once

#include <cstdint>
#include <functional>

namespace paracord {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds of a steady clock with an arbitrary origin. Deadlines and leases use this clock.
  virtual int64_t NowMs() const = 0;
  // Milliseconds since 1970 of the wall clock, which may jump. For times that people or files get,
  // such as in logs, manifests and metrics, and for the dates of certificates.
  virtual int64_t UnixMs() const = 0;
};

class EventLoop : public Clock {
 public:
  using TimerId = uint64_t;  // never 0

  virtual void Post(std::function<void()> fn) = 0;
  // Runs `fn` once, `delay_ms` from now or later.
  virtual TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) = 0;
  // Keeps the function of a timer from running. Ignores unknown ids, and timers that have run.
  virtual void Cancel(TimerId id) = 0;
};

}  // namespace paracord
