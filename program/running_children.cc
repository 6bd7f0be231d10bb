#include "program/running_children.h"

#include "program/child_process.h"

namespace paracord {

void RunningChildren::EndAll() {
  {
    MutexLock lock(mu_);
    ended_ = true;
  }
  MutexLock lock(children_mu_);
  for (ChildProcess* const child : children_) child->SayBye();
  for (ChildProcess* const child : children_) child->EndNow();
  children_.clear();
}

bool RunningChildren::ended() const {
  MutexLock lock(mu_);
  return ended_;
}

bool RunningChildren::Add(ChildProcess* child) {
  MutexLock lock(children_mu_);
  if (ended()) return false;
  children_.insert(child);
  return true;
}

void RunningChildren::Remove(ChildProcess* child) {
  MutexLock lock(children_mu_);
  children_.erase(child);
}

}  // namespace paracord
