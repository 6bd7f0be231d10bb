// When the coordinator has last answered a worker. Owned by the worker, used on the event loop.
// | Invariant: between two answers of a coordinator to a request to join, the worker looks at most
// once into the job's directory, which shows whether the job is done.
#pragma once

#include <cstdint>
#include <utility>

namespace paracord {

class CoordinatorSeen {
 public:
  // The worker begins to look for a coordinator.
  void Start(int64_t now_ms) { seen_ms_ = now_ms; }
  // The coordinator has answered.
  void Seen(int64_t now_ms) {
    seen_ms_ = now_ms;
    known_ = true;
  }
  // The coordinator has answered a request to join: LookNow may be true again.
  void LookAgain() { looked_ = false; }

  int64_t seen_ms() const { return seen_ms_; }
  // Whether this process has ever seen a coordinator.
  bool known() const { return known_; }
  // Returns whether the worker should look into the job's directory, because the coordinator has
  // not answered for `after_ms`. Then returns false until LookAgain.
  bool LookNow(int64_t after_ms, int64_t now_ms) {
    return !looked_ && now_ms - seen_ms_ >= after_ms && !std::exchange(looked_, true);
  }
  // Whether LookNow was true since the last LookAgain.
  bool looked() const { return looked_; }

 private:
  int64_t seen_ms_ = 0;
  bool known_ = false;
  bool looked_ = false;
};

}  // namespace paracord
