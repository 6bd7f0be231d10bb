// Which of the host's memory the runtimes of this process have pinned. Several may have the same
// (the GPUs of a group copy the same parameters): it is pinned by the first, and until the last is
// done with it, so that what one of them still copies does not become pageable. One of a process,
// because pinning is. Thread-safe.
#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord::cuda {

class HostPins {
 public:
  // pin(): pins the memory, and gives a status.
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
  // For each Pin that went well.
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
