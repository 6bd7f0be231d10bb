// Tells a thread that sleeps in epoll which connections may go on and which must end. Thread-safe.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace paracord {

class WakeList {
 public:
  struct Woken {
    uint64_t connection = 0;
    bool ends = false;  // true: the connection must end; false: it may go on
  };

  WakeList() = default;
  ~WakeList() {
    if (fd_ >= 0) close(fd_);
  }
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;

  // Readable from Wake or Add until the next Take; negative if no descriptor was free.
  int fd() const { return fd_; }
  void Wake() const {
    const uint64_t once = 1;
    (void)!write(fd_, &once, sizeof(once));
  }
  void Add(Woken woken) {
    {
      MutexLock lock(mu_);
      woken_.push_back(woken);
    }
    Wake();
  }
  std::vector<Woken> Take() {
    uint64_t count = 0;
    (void)!read(fd_, &count, sizeof(count));
    MutexLock lock(mu_);
    return std::exchange(woken_, {});
  }

 private:
  const int fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  Mutex mu_;
  std::vector<Woken> woken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
