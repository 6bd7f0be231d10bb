// A thread that runs functions one after another, so that what a device keeps for each thread is
// made only once. Used by one thread, which calls Wait before the next Start.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "common/mutex.h"
#include "common/try_thread.h"

namespace paracord {

class WorkThread {
 public:
  WorkThread() : thread_(TryThread([this] { Serve(); })) {}
  ~WorkThread() {
    {
      MutexLock lock(mu_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.has_value()) thread_->join();
  }

  // Whether the system had room for the thread.
  bool there() const { return thread_.has_value(); }
  // Begins to run `work`, which must not throw, on the thread. If there() is false, runs `work` on
  // the calling thread instead, and returns when `work` has ended.
  void Start(std::function<void()> work) {
    if (!thread_.has_value()) return work();
    {
      MutexLock lock(mu_);
      work_ = std::move(work);
    }
    changed_.notify_all();
  }
  // Waits until the function of the last Start has ended.
  void Wait() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mu_.native());
    changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return work_ == nullptr; });
  }

 private:
  void Serve() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mu_.native());
    while (true) {
      changed_.wait(lock,
                    [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return work_ != nullptr || ends_; });
      if (work_ == nullptr) return;
      lock.unlock();
      work_();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  Mutex mu_;
  std::condition_variable_any changed_;
  std::function<void()> work_ ABSL_GUARDED_BY(mu_);  // null: there is nothing to run
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<std::thread> thread_;
};

}  // namespace paracord
