// Bounds the bytes of all requests arriving or being answered (back-pressure), counted in a share
// of the process's memory. While the sum exceeds the share's limit, calls stop reading, and the
// network's flow control stops their peers. The oldest arriving call may always read on, to
// guarantee progress, and small requests never wait; hence the sum may exceed the limit. While
// other calls wait, the oldest call must make progress, or it is dropped. A call of the request
// budget may stand for several requests, of a connection that cannot pause one of them. If the sum
// exceeds the limit by more than the largest allowed request, the arriving call with the most bytes
// is dropped; the oldest call only if its own bytes exceed the largest allowed request.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/limit_error.h"
#include "common/memory_budget.h"
#include "common/mutex.h"
#include "common/steady_ms.h"

namespace paracord {

class RequestBudget {
 public:
  // While other calls wait, the oldest call must receive kMovedMin bytes within its `patience_ms`
  // or is dropped. Begin, Take and Look check this.
  static constexpr uint64_t kMovedMin = 64 << 10;
  static constexpr int64_t kPatienceMs = 5000;

  // Requests of up to `small_bytes` never wait.
  explicit RequestBudget(uint64_t bytes_max, uint64_t small_bytes = 0,
                         std::function<int64_t()> now_ms = SteadyMs)
      : RequestBudget(std::make_shared<MemoryShare>(bytes_max), small_bytes, std::move(now_ms)) {}
  explicit RequestBudget(std::shared_ptr<MemoryShare> share, uint64_t small_bytes = 0,
                         std::function<int64_t()> now_ms = SteadyMs)
      : share_(std::move(share)), small_bytes_(small_bytes), now_ms_(std::move(now_ms)) {}

  // Registers a call, younger than all earlier calls, and returns its number, from 1. `drop` shall
  // make the caller end the call. `drop` runs at most once, inside any Begin, Take or Look of this
  // request budget, on the thread that calls it, and perhaps just after End.
  uint64_t Begin(std::function<void()> drop = nullptr, int64_t patience_ms = kPatienceMs);
  // Reports how many bytes the call has received in all, including bytes not yet counted by Take.
  void Moved(uint64_t call, uint64_t bytes);
  void Look();
  // Counts `bytes` more of the call. Returns true if the call may read on. Otherwise `resume` runs
  // once there is room, on the thread that makes the room, perhaps before Take returns; it does not
  // run if End was called before there is room.
  bool Take(uint64_t call, uint64_t bytes, std::function<void()> resume);
  void Give(uint64_t call, uint64_t bytes);  // frees `bytes` of the call's bytes
  void Keep(uint64_t call, uint64_t bytes);  // frees all but `bytes`; the call may have ended
  void Arrived(uint64_t call);               // the call is complete and reads no more
  // Counts a complete request received elsewhere, and returns its number, for End.
  uint64_t Hold(uint64_t bytes);
  void End(uint64_t call);  // frees the call's bytes; its `resume` may still be about to run

  uint64_t bytes() const;
  bool full() const { return share_->bytes() > static_cast<int64_t>(share_->bytes_max()); }
  // The bytes of the largest allowed request: the share's spare bytes.
  uint64_t request_bytes_max() const { return share_->spare(); }

 private:
  struct Call {
    uint64_t bytes = 0;
    uint64_t moved = 0;  // the bytes received, as of the last Moved
    int64_t patience_ms = 0;
    std::function<void()> drop;
    std::function<void()> resume;  // set while the call waits
    bool dropped = false;
  };
  using Resumes = std::vector<std::function<void()>>;
  bool IsOldest(uint64_t call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Resumes WhoMayGoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::function<void()> DropOfWhoIsStuck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::function<void()> DropOfWhoHoards() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::function<void()> Drop(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<MemoryShare> share_;  // thread-safe itself
  const uint64_t small_bytes_;
  const std::function<int64_t()> now_ms_;
  mutable Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> arriving_ ABSL_GUARDED_BY(mu_);  // the oldest first
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mu_);   // calls that have a `resume`
  // The oldest call while other calls wait; 0: none. At watched_ms_, when its `patience_ms` began,
  // it had watched_bytes_.
  uint64_t watched_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t watched_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t watched_ms_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t looked_ms_ ABSL_GUARDED_BY(mu_) = 0;
};

// The answer to a request that is larger than `bytes_max`, the largest allowed size.
inline absl::Status RequestTooLarge(uint64_t bytes_max) {
  return LimitError(
      absl::StrCat("a request of more than ", HumanBytes(bytes_max),
                   ", the most that this process takes in one (with --memory-limit, half of what "
                   "its variables leave): a smaller \"batch\", more ps, or more memory"));
}

}  // namespace paracord
