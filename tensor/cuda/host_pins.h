// The process-wide count of who has pinned (page-locked) which host memory. The GPUs of a group
// copy the same parameters, so several runtimes may pin the same memory: the first one pins it, and
// it stays pinned until the last one unpins it, because its copies may be in flight. Thread-safe.
#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord::cuda {

class HostPins {
 public:
  // Calls pin(), which page-locks the memory and returns a status, unless it is pinned already.
  template <class Do>
  absl::Status Pin(const void* memory, size_t bytes, const Do& pin) {
    const MutexLock lock(mu_);
    const auto found = pins_.find(memory);
    if (found != pins_.end() && found->second.bytes >= bytes) {
      ++found->second.owners;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(pin());
    pins_[memory] = {bytes, 1};
    return absl::OkStatus();
  }
  // Undoes one Pin that returned OK. The last one calls unpin().
  template <class Do>
  absl::Status Unpin(const void* memory, const Do& unpin) {
    const MutexLock lock(mu_);
    const auto found = pins_.find(memory);
    if (found != pins_.end()) {
      if (--found->second.owners > 0) return absl::OkStatus();
      pins_.erase(found);
    }
    return unpin();
  }

 private:
  struct Pinned {
    size_t bytes = 0;
    int owners = 0;
  };
  Mutex mu_;
  std::map<const void*, Pinned> pins_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord::cuda
