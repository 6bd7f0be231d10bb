// A helper process that waits for the end of ours. If ours ends before a started program does, as
// by kill -9, the guard kills the program's process group and removes the program's folder. Without
// /bin/sh there is no guard. Used by one thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace paracord {

class GroupGuard {
 public:
  GroupGuard() = default;
  ~GroupGuard();  // the guard leaves all alone
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  // Begins, once. The guard's output is the descriptor `output`.
  void Watch(pid_t group, const std::string& folder, int output);

 private:
  pid_t pid_ = 0;
  int end_ = -1;  // our end of a pipe; the guard reads until all holders have closed it
};

}  // namespace paracord
