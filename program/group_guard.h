// A process that waits for the end of ours. Where that comes before the end of a program that was
// started, as by kill -9, it kills the program's process group, whose members would outlive both,
// and removes the program's folder. Where there is no /bin/sh nothing does. Used by one thread.
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
  int end_ = -1;  // of a pipe, whose other end the guard reads until nobody has this one
};

}  // namespace paracord
