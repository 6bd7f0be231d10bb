// When a worker has last seen its coordinator. Owned by the worker, on its loop.
//
// Invariant: DIR, which says whether the job is done, is looked at once for each time that the
// coordinator stays away.
#pragma once

#include <cstdint>
#include <utility>

namespace paracord {

class CoordinatorSeen {
 public:
  // The worker begins to look for one.
  void Start(int64_t now_ms) { seen_ms_ = now_ms; }
  // It has answered.
  void Seen(int64_t now_ms) {
    seen_ms_ = now_ms;
    known_ = true;
  }
  // It has answered a join: DIR is looked at again when it stays away.
  void LookAgain() { looked_ = false; }

  int64_t seen_ms() const { return seen_ms_; }
  // Whether this process has ever seen it.
  bool known() const { return known_; }
  // Whether it has been away for so long that DIR is to be looked at. True once.
  bool LookNow(int64_t after_ms, int64_t now_ms) {
    return !looked_ && now_ms - seen_ms_ >= after_ms && !std::exchange(looked_, true);
  }
  bool looked() const { return looked_; }

 private:
  int64_t seen_ms_ = 0;
  bool known_ = false;
  bool looked_ = false;
};

}  // namespace paracord
