#include "net/call_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr size_t kServingMax = 1024;  // open calls of one peer

// A connection that moves this many bytes within a deadline is slow, but not silent.
constexpr uint64_t kMovedMin = 256 << 10;

}  // namespace

// ---- calls of ours to the peer

uint64_t CallTable::Add(ReplyFn done, int64_t deadline_ms, std::shared_ptr<ReplySink> sink) {
  {
    MutexLock lock(mu_);
    if (!closed_) {
      calls_[++last_call_] = {std::move(done), SteadyMs() + deadline_ms, deadline_ms,
                              std::move(sink), std::nullopt};
      return last_call_;
    }
  }
  done(absl::CancelledError(absl::StrCat(peer_, ": the link was closed")));
  return 0;
}

std::optional<std::shared_ptr<ReplySink>> CallTable::SinkOf(uint64_t call) const {
  MutexLock lock(mu_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return std::nullopt;
  return found->second.sink;
}

void CallTable::Answer(uint64_t call, absl::StatusOr<absl::Cord> reply) {
  ReplyFn done;
  {
    MutexLock lock(mu_);
    const auto it = calls_.find(call);
    if (it == calls_.end()) return;
    done = std::move(it->second.done);
    calls_.erase(it);
    answering_.push_back(std::this_thread::get_id());
  }
  if (reply.ok()) {
    done(std::move(reply));
  } else {
    done(absl::Status(reply.status().code(), absl::StrCat(peer_, ": ", reply.status().message())));
  }
  done = nullptr;
  MutexLock lock(mu_);
  answering_.erase(std::find(answering_.begin(), answering_.end(), std::this_thread::get_id()));
  idle_.notify_all();
}

std::vector<uint64_t> CallTable::Expire(uint64_t moved) {
  std::vector<std::pair<uint64_t, int64_t>> late;
  std::vector<uint64_t> numbers;
  {
    MutexLock lock(mu_);
    if (calls_.empty()) return numbers;
    const int64_t now = SteadyMs();
    for (auto& [call, pending] : calls_) {
      if (!pending.moved.has_value()) pending.moved = moved;
      if (pending.until_ms > now) continue;
      if (moved - *pending.moved < kMovedMin) {
        late.emplace_back(call, pending.patience_ms);
      } else {
        pending.until_ms = now + pending.patience_ms;
        pending.moved = moved;
      }
    }
  }
  for (const auto& [call, patience_ms] : late) {
    Answer(call,
           absl::DeadlineExceededError(absl::StrCat("no answer within ", patience_ms, " ms")));
    numbers.push_back(call);
  }
  return numbers;
}

void CallTable::FailAll() {
  std::vector<uint64_t> all;
  {
    MutexLock lock(mu_);
    for (const auto& [call, pending] : calls_) all.push_back(call);
  }
  for (const uint64_t call : all) Answer(call, absl::UnavailableError("the connection broke"));
}

void CallTable::Close() {
  std::map<uint64_t, Pending> calls;
  {
    MutexLock lock(mu_);
    closed_ = true;
    calls.swap(calls_);
  }
  for (auto& [call, pending] : calls) {
    pending.done(absl::CancelledError(absl::StrCat(peer_, ": the link was closed")));
  }
  std::unique_lock<std::mutex> lock(mu_.native());
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(answering_.begin(), answering_.end(),
                       [](std::thread::id id) { return id == std::this_thread::get_id(); });
  };
  idle_.wait(lock, idle);
}

// ---- calls of the peer to us

bool CallTable::Begin(uint64_t call) {
  MutexLock lock(mu_);
  return serving_.size() < kServingMax && serving_.emplace(call, Serving()).second;
}

bool CallTable::End(uint64_t call) {
  std::function<void()> forgotten;
  MutexLock lock(mu_);
  const auto it = serving_.find(call);
  if (it == serving_.end()) return false;
  forgotten.swap(it->second.on_cancel);
  const bool wanted = !it->second.cancelled;
  serving_.erase(it);
  return wanted;
}

void CallTable::OnCancel(uint64_t call, std::function<void()> fn) {
  {
    MutexLock lock(mu_);
    const auto it = serving_.find(call);
    if (it == serving_.end()) return;
    if (!it->second.cancelled) {
      it->second.on_cancel = std::move(fn);
      return;
    }
  }
  fn();
}

void CallTable::Cancel(uint64_t call) {
  std::function<void()> fn;
  {
    MutexLock lock(mu_);
    const auto it = serving_.find(call);
    if (it == serving_.end()) return;
    it->second.cancelled = true;
    fn.swap(it->second.on_cancel);
  }
  if (fn) fn();
}

void CallTable::CancelAll() {
  std::vector<uint64_t> all;
  {
    MutexLock lock(mu_);
    for (const auto& [call, state] : serving_) all.push_back(call);
  }
  for (const uint64_t call : all) Cancel(call);
}

}  // namespace paracord
