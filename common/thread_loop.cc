#include "common/thread_loop.h"

#include <chrono>

#include "common/steady_ms.h"

namespace paracord {

int64_t ThreadLoop::NowMs() const { return SteadyMs(); }

int64_t ThreadLoop::UnixMs() const { return paracord::UnixMs(); }

void ThreadLoop::Post(std::function<void()> fn) {
  MutexLock lock(mu_);
  if (stopped_) return;
  ready_.push_back(std::move(fn));
  wake_.notify_one();
}

EventLoop::TimerId ThreadLoop::PostAfter(int64_t delay_ms, std::function<void()> fn) {
  MutexLock lock(mu_);
  const TimerId id = ++last_timer_;
  if (stopped_) return id;
  const int64_t due_ms = NowMs() + delay_ms;
  timers_.emplace(std::make_pair(due_ms, id), std::move(fn));
  due_ms_.emplace(id, due_ms);
  wake_.notify_one();
  return id;
}

void ThreadLoop::Cancel(TimerId id) {
  std::function<void()> cancelled;  // destroyed without the lock
  MutexLock lock(mu_);
  const auto it = due_ms_.find(id);
  if (it == due_ms_.end()) return;
  const auto timer = timers_.find({it->second, id});
  cancelled = std::move(timer->second);
  timers_.erase(timer);
  due_ms_.erase(it);
}

void ThreadLoop::Run() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu_.native());
  bool timers_turn = true;  // keeps posts and timers from starving each other
  while (!stopped_) {
    const bool due = !timers_.empty() && timers_.begin()->first.first <= NowMs();
    if (!due && ready_.empty()) {
      if (timers_.empty()) {
        wake_.wait(lock);
      } else {
        wake_.wait_for(lock, std::chrono::milliseconds(timers_.begin()->first.first - NowMs()));
      }
      continue;
    }
    std::function<void()> fn;
    if (due && (timers_turn || ready_.empty())) {
      due_ms_.erase(timers_.begin()->first.second);
      fn = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
    } else {
      fn = std::move(ready_.front());
      ready_.pop_front();
    }
    timers_turn = !timers_turn;
    lock.unlock();
    fn();
    fn = nullptr;  // destroyed without the lock
    lock.lock();
  }
}

void ThreadLoop::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  wake_.notify_one();
}

ThreadExecutor::ThreadExecutor(EventLoop& loop) : loop_(loop), thread_([this] { Main(); }) {}

ThreadExecutor::~ThreadExecutor() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

void ThreadExecutor::Run(std::function<void()> work, std::function<void()> done) {
  MutexLock lock(mu_);
  queue_.emplace_back(std::move(work), std::move(done));
  wake_.notify_one();
}

void ThreadExecutor::Main() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu_.native());
  while (true) {
    while (!stopped_ && queue_.empty()) wake_.wait(lock);
    if (stopped_) return;
    std::pair<std::function<void()>, std::function<void()>> item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    item.first();
    item.first = nullptr;
    loop_.Post(std::move(item.second));
    lock.lock();
  }
}

}  // namespace paracord
