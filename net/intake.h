// Bounds the bytes of all requests that are arriving or being answered. A call that has brought the
// sum above the limit reads on only when there is room again: its peer is stopped by the network's
// own flow control. The oldest call that is still arriving may always read on, so that there is one
// whom nobody holds up, in any order of arrival; hence the sum exceeds the limit by the rest of one
// request at most, which has a limit of its own; small requests never wait. And it has to move on
// while others wait for it: a peer that is silent or drips is given up. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/steady_ms.h"

namespace paracord {

class Intake {
 public:
  // Bytes of the oldest that must come in some time while others wait, or it is dropped. That is
  // looked at whenever a call begins or reads, and by Look.
  static constexpr uint64_t kMovedMin = 64 << 10;
  static constexpr int64_t kPatienceMs = 5000;

  // `small_bytes`: of a request that never waits.
  explicit Intake(uint64_t bytes_max, uint64_t small_bytes = 0,
                  std::function<int64_t()> now_ms = SteadyMs)
      : bytes_max_(bytes_max), small_bytes_(small_bytes), now_ms_(std::move(now_ms)) {}

  // A call, older than all that begin later. `drop` ends it; run at most once, on another's thread.
  uint64_t Begin(std::function<void()> drop = nullptr, int64_t patience_ms = kPatienceMs);
  // So many bytes have come in all, of which Take may not know yet.
  void Moved(uint64_t call, uint64_t bytes);
  void Look();
  // So many bytes more have come. True: it reads on; false: when `resume` is run, once, on another
  // thread.
  bool Take(uint64_t call, uint64_t bytes, std::function<void()> resume);
  void Arrived(uint64_t call);  // it reads no more
  void End(uint64_t call);      // its bytes are let go; `resume` may still be about to run

  uint64_t bytes() const;

 private:
  struct Call {
    uint64_t bytes = 0;
    uint64_t moved = 0;  // at least those
    int64_t patience_ms = 0;
    std::function<void()> drop;
    std::function<void()> resume;  // waits
  };
  using Resumes = std::vector<std::function<void()>>;
  bool IsOldest(uint64_t call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Resumes WhoMayGoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::function<void()> DropOfWhoIsStuck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t bytes_max_;
  const uint64_t small_bytes_;
  const std::function<int64_t()> now_ms_;
  mutable Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> arriving_ ABSL_GUARDED_BY(mu_);  // the oldest first
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mu_);   // that have a `resume`
  // The oldest while others wait for it, and what it had when that was noticed.
  uint64_t watched_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t watched_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t watched_ms_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t looked_ms_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paracord
