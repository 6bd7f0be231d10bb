// The children that run programs of jobs in this process. A daemon leaves without the destructors
// of what may be in use, so that its end says goodbye to them here. Any thread.
#pragma once

#include <set>

#include "common/mutex.h"

namespace paracord {

class ChildProcess;

class RunningChildren {
 public:
  // Says goodbye to all, gives them a while to leave, kills what is left of them and removes the
  // folders in which they run. None runs afterwards.
  void EndAll();
  // Whether that has begun: no child is lost that ends now.
  bool ended() const;

  // Called by a child. False if it comes too late.
  bool Add(ChildProcess* child);
  void Remove(ChildProcess* child);

 private:
  mutable Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Mutex children_mu_;  // held while they are ended
  std::set<ChildProcess*> children_ ABSL_GUARDED_BY(children_mu_);
};

}  // namespace paracord
