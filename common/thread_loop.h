// The event loop of real programs, which runs on the thread that calls Run, and their executor,
// which has a thread of its own. Owned by main.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/mutex.h"

namespace paracord {

class ThreadLoop : public EventLoop {
 public:
  int64_t NowMs() const override;
  int64_t UnixMs() const override;
  void Post(std::function<void()> fn) override;
  TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) override;
  void Cancel(TimerId id) override;

  // Runs posted functions on the calling thread until Stop is called, and then no more.
  void Run();
  void Stop();  // may be called from any thread

 private:
  Mutex mu_;
  std::condition_variable_any wake_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  TimerId last_timer_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::function<void()>> ready_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_ ABSL_GUARDED_BY(mu_);
  std::map<TimerId, int64_t> due_ms_ ABSL_GUARDED_BY(mu_);
};

// Posts each `done` to `loop`, which must outlive the executor. The destructor drops every `work`
// that has not begun, and waits for the end of a `work` that is running.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(EventLoop& loop);
  ~ThreadExecutor() override;
  void Run(std::function<void()> work, std::function<void()> done) override;

 private:
  void Main();

  EventLoop& loop_;
  Mutex mu_;
  std::condition_variable_any wake_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> queue_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace paracord
