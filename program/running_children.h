// The registry of the children of this process that run programs of jobs. A daemon exits without
// calling destructors, because threads may still run; EndAll ends the children then. Thread-safe.
#pragma once

#include <set>

#include "common/mutex.h"

namespace paracord {

class ChildProcess;

class RunningChildren {
 public:
  // Says "bye" to all children in the registry, waits up to 2 s for the children to end, kills what
  // is left of them and removes their folders.
  void EndAll();
  // Whether EndAll has begun. If so, the end of a child is no error.
  bool ended() const;

  // Called for a child that has started. False if EndAll has begun: the caller must end the child.
  bool Add(ChildProcess* child);
  void Remove(ChildProcess* child);

 private:
  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Mutex children_mu_;  // held while EndAll runs
  std::set<ChildProcess*> children_ ABSL_GUARDED_BY(children_mu_);
};

}  // namespace paracord
