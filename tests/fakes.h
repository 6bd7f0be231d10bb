// Fakes of the seams in common/environment.h, for tests in one thread: a clock moved by the test,
// an executor that runs on demand, calls that keep their answers, and files in a temporary
// directory. Owned by the test; not thread-safe unless a comment says so.
#pragma once

#include <stdlib.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/environment.h"
#include "common/mutex.h"

namespace paracord {

// Post may be called from any thread. Functions run only inside Run* and Advance.
class ManualLoop : public EventLoop {
 public:
  int64_t NowMs() const override { return now_ms_; }
  int64_t UnixMs() const override { return 1'700'000'000'000 + now_ms_; }

  void Post(std::function<void()> fn) override {
    MutexLock lock(mu_);
    posted_.push_back(std::move(fn));
  }
  TimerId PostAfter(int64_t delay_ms, std::function<void()> fn) override {
    timers_[{now_ms_ + delay_ms, ++last_id_}] = std::move(fn);
    return last_id_;
  }
  void Cancel(TimerId id) override {
    std::erase_if(timers_, [&](const auto& timer) { return timer.first.second == id; });
  }

  // Runs posted functions and the functions that they post, but no timers.
  void RunPosted() {
    while (true) {
      std::function<void()> fn;
      {
        MutexLock lock(mu_);
        if (posted_.empty()) return;
        fn = std::move(posted_.front());
        posted_.pop_front();
      }
      fn();
    }
  }
  // Moves the clock and runs due timers in order.
  void Advance(int64_t ms) {
    const int64_t end_ms = now_ms_ + ms;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= end_ms) {
      const auto timer = timers_.begin();
      now_ms_ = std::max(now_ms_, timer->first.first);
      const std::function<void()> fn = std::move(timer->second);
      timers_.erase(timer);
      fn();
      RunPosted();
    }
    now_ms_ = end_ms;
  }

 private:
  int64_t now_ms_ = 1000;
  TimerId last_id_ = 0;
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  Mutex mu_;
  std::deque<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
};

// Runs work on demand, or at once. Unless at once, Run may be called from any thread.
class ManualExecutor : public Executor {
 public:
  explicit ManualExecutor(EventLoop& loop, bool at_once = true) : loop_(loop), at_once_(at_once) {}
  void Run(std::function<void()> work, std::function<void()> done) override {
    {
      MutexLock lock(mu_);
      queue_.emplace_back(std::move(work), std::move(done));
    }
    if (at_once_) RunOne();
  }
  void set_at_once(bool at_once) { at_once_ = at_once; }
  // Returns false if nothing is queued.
  bool RunOne() {
    std::pair<std::function<void()>, std::function<void()>> item;
    {
      MutexLock lock(mu_);
      if (queue_.empty()) return false;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    item.first();
    loop_.Post(std::move(item.second));
    return true;
  }

 private:
  EventLoop& loop_;
  bool at_once_;
  Mutex mu_;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> queue_ ABSL_GUARDED_BY(mu_);
};

// Returns SplitMix64's numbers for a seed.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

// Keeps the answer. `answered` counts answers, of which there must be one.
class FakeCall : public ServerCall {
 public:
  void Reply(absl::StatusOr<Parts> given) override {
    ++answered;
    if (!given.ok()) {
      reply = given.status();
      return;
    }
    absl::Cord whole;
    for (const absl::Cord& part : *given) whole.Append(part);
    reply = std::move(whole);
  }
  bool Stream(absl::Cord message) override {
    if (!streams) return false;
    sent.push_back(std::move(message));
    return true;
  }
  void OnCancel(std::function<void()> fn) override { on_cancel_ = std::move(fn); }
  void ReleaseRequest() override {
    if (on_release) std::exchange(on_release, nullptr)();
  }
  std::string_view caller() const override { return task; }

  // The caller goes away.
  void Cancel() {
    if (answered == 0 && on_cancel_) std::exchange(on_cancel_, nullptr)();
  }

  std::string task;  // the caller's task
  int answered = 0;
  absl::StatusOr<absl::Cord> reply = absl::UnknownError("not answered");
  std::function<void()> on_release;
  bool streams = false;  // the network has calls with many answers
  std::vector<absl::Cord> sent;

 private:
  std::function<void()> on_cancel_;
};

// A network without listeners, which cannot be dialled.
class NoNetwork : public Network {
 public:
  std::unique_ptr<Link> Dial(const std::string&) override { return nullptr; }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Service&) override {
    return absl::UnimplementedError("no network");
  }
};

// Overwrites a file without a sync, which would be too slow for thousands of damaged files.
inline bool Overwrite(Files& files, const std::string& path, const std::string& bytes) {
  const auto file = files.Create(path);
  return file.ok() && (*file)->Append(bytes).ok();
}

// A directory removed after the test, unless PARACORD_TEST_KEEP is set. The path is short enough
// for sockets.
class TestDirectory {
 public:
  TestDirectory() {
    const char* base = ::getenv("TMPDIR");
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/pctest-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) ::abort();
  }
  ~TestDirectory() {
    if (::getenv("PARACORD_TEST_KEEP") == nullptr) PosixFiles().RemoveTree(path_).IgnoreError();
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and creates its parent directories. Returns the path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::string file = *this / name;
    PosixFiles files;
    const absl::Status made = files.MakeDirectories(file.substr(0, file.rfind('/')));
    if (!made.ok() || !Overwrite(files, file, text)) ::abort();
    return file;
  }

 private:
  std::string path_;
};

}  // namespace paracord
