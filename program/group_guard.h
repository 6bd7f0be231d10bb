// Starts a helper process that outlives this process. If this process ends without destroying the
// GroupGuard, as by kill -9, the helper kills the process group of a job's program and removes the
// program's folder. Without /bin/sh there is no helper. Used by one thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace paracord {

class GroupGuard {
 public:
  GroupGuard() = default;
  ~GroupGuard();  // ends the helper, which then kills and removes nothing
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  // Starts the helper for a process group and a folder. The helper's stdout and stderr go to the
  // descriptor `output`. Called at most once.
  void Watch(pid_t group, const std::string& folder, int output);

 private:
  pid_t pid_ = 0;
  int end_ = -1;  // the writing end of a pipe; the helper acts when this end is closed
};

}  // namespace paracord
