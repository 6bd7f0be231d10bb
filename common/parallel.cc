#include "common/parallel.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "common/mutex.h"
#include "common/try_thread.h"

namespace paracord {
namespace {

struct Loop {
  Loop(size_t n, const std::function<void(size_t)>& b) : count(n), body(b) {}

  // Takes indices until none are left.
  void Work() {
    for (size_t i = next++; i < count; i = next++) {
      body(i);
      if (++finished == count) {
        MutexLock lock(mu);
        over.notify_all();
      }
    }
  }

  const size_t count;
  const std::function<void(size_t)>& body;  // not called once `next` is past the end
  std::atomic<size_t> next{0};
  std::atomic<size_t> finished{0};
  Mutex mu;
  std::condition_variable_any over;
};

class Pool {
 public:
  explicit Pool(int helpers) {
    // The threads are never joined: the pool lives as long as the process.
    for (int i = 0; i < helpers; ++i) {
      std::optional<std::thread> helper = TryThread([this] { Help(); });
      if (!helper.has_value()) return;  // the caller of Run does the work alone
      helper->detach();
    }
  }

  void Run(const std::shared_ptr<Loop>& loop) {
    {
      MutexLock lock(mu_);
      loops_.push_back(loop);
    }
    wanted_.notify_all();
    loop->Work();
    std::unique_lock<std::mutex> lock(loop->mu.native());
    loop->over.wait(lock, [&] { return loop->finished == loop->count; });
  }

 private:
  [[noreturn]] void Help() {
    while (true) Next()->Work();
  }

  std::shared_ptr<Loop> Next() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mu_.native());
    while (true) {
      while (!loops_.empty() && loops_.front()->next >= loops_.front()->count) loops_.pop_front();
      if (!loops_.empty()) return loops_.front();
      wanted_.wait(lock);
    }
  }

  Mutex mu_;
  std::condition_variable_any wanted_;
  std::deque<std::shared_ptr<Loop>> loops_ ABSL_GUARDED_BY(mu_);
};

Pool* pool = nullptr;

}  // namespace

void SetParallelThreads(int threads) {
  if (threads > 1 && pool == nullptr) pool = new Pool(threads - 1);
}

void ParallelFor(size_t count, const std::function<void(size_t)>& body) {
  if (pool == nullptr || count < 2) {
    for (size_t i = 0; i < count; ++i) body(i);
    return;
  }
  pool->Run(std::make_shared<Loop>(count, body));
}

}  // namespace paracord
