// The children of this process that run programs of jobs. A daemon exits without destructors,
// because threads may still run, and ends its children here instead. Any thread.
#pragma once

#include <set>

#include "common/mutex.h"

namespace paracord {

class ChildProcess;

class RunningChildren {
 public:
  // Says goodbye to all children, waits a while, kills the rest and removes their folders. No child
  // runs afterwards.
  void EndAll();
  // Whether EndAll has begun: from then on the end of a child is expected, not a loss.
  bool ended() const;

  // Called by a child. False after EndAll has begun.
  bool Add(ChildProcess* child);
  void Remove(ChildProcess* child);

 private:
  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Mutex children_mu_;  // held while EndAll runs
  std::set<ChildProcess*> children_ ABSL_GUARDED_BY(children_mu_);
};

}  // namespace paracord
