// Counts the page locks on host memory, over all runtimes of the process. The GPUs of a group copy
// the same parameters, hence several runtimes lock the same memory: the first Lock locks the pages,
// and the last Unlock unlocks them, because other runtimes' copies may be in flight. Thread-safe.
#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord::cuda {

class PageLocks {
 public:
  // Calls lock(), which page-locks the memory and returns a status, unless this object has locked
  // the memory from this address on, for `bytes` or more, already.
  template <class Do>
  absl::Status Lock(const void* memory, size_t bytes, const Do& lock) {
    const MutexLock guard(mu_);
    const auto found = locked_.find(memory);
    if (found != locked_.end() && found->second.bytes >= bytes) {
      ++found->second.owners;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(lock());
    locked_[memory] = {bytes, 1};
    return absl::OkStatus();
  }
  // Undoes a Lock that returned OK. The last Unlock of an address calls unlock().
  template <class Do>
  absl::Status Unlock(const void* memory, const Do& unlock) {
    const MutexLock guard(mu_);
    const auto found = locked_.find(memory);
    if (found != locked_.end()) {
      if (--found->second.owners > 0) return absl::OkStatus();
      locked_.erase(found);
    }
    return unlock();
  }

 private:
  struct Locked {
    size_t bytes = 0;
    int owners = 0;
  };
  Mutex mu_;
  std::map<const void*, Locked> locked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord::cuda
