// When the coordinator has last answered a worker. Owned by the worker, used on the event loop.
// | Invariant: during each absence of the coordinator, the worker looks once into DIR, the job's
// directory, which shows whether the job is done.
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
  // The coordinator has answered a join: the next absence is a new reason to look into DIR.
  void LookAgain() { looked_ = false; }

  int64_t seen_ms() const { return seen_ms_; }
  // Whether this process has ever seen a coordinator.
  bool known() const { return known_; }
  // Whether the worker should look into DIR, because the coordinator has not answered for
  // `after_ms`. True only once until LookAgain.
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
