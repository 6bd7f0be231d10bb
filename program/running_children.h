// The children of this process that run programs of jobs. A daemon exits without destructors,
// because threads may still run, and ends its children by EndAll instead. Any thread.
#pragma once

#include <set>

#include "common/mutex.h"

namespace paracord {

class ChildProcess;

class RunningChildren {
 public:
  // Says "bye" to all children that were added, waits up to 2 s for the children to leave, kills
  // the rest and removes all folders. From then on Add refuses.
  void EndAll();
  // Whether EndAll has begun: from then on the end of a child is no error.
  bool ended() const;

  // Called by a child that has started. False after EndAll has begun: the child must end.
  bool Add(ChildProcess* child);
  void Remove(ChildProcess* child);

 private:
  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Mutex children_mu_;  // held while EndAll runs
  std::set<ChildProcess*> children_ ABSL_GUARDED_BY(children_mu_);
};

}  // namespace paracord
