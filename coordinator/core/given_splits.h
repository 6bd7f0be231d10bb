// The splits, or lanes, that a worker process was given a lease of, numbered through all epochs:
// only about these batches can the worker report an outcome. They outlive its sessions, because a
// worker tells a new session what the session before did not hear. Owned by Sessions, by task.
// Pure.
#pragma once

#include <cstdint>

#include "absl/container/btree_set.h"

namespace paracord {

class GivenSplits {
 public:
  // `from_before`: the process has worked for an earlier coordinator of the job, whose leases this
  // one does not know.
  explicit GivenSplits(bool from_before) : from_before_(from_before) {}

  void Add(uint64_t split) { splits_.insert(split); }
  // Splits before this one are of epochs that nobody tells of any more.
  void ForgetBefore(uint64_t split) { splits_.erase(splits_.begin(), splits_.lower_bound(split)); }
  // Whether the process may know of the split's batches.
  bool MayKnow(uint64_t split) const { return from_before_ || splits_.contains(split); }

 private:
  bool from_before_;
  absl::btree_set<uint64_t> splits_;
};

}  // namespace paracord
