// The splits or lanes that a worker process has had leases of, numbered across all epochs: the
// worker can report outcomes only of batches of these splits. The splits are kept beyond the end of
// a session, because in its next session the worker repeats reports that were not answered. Owned
// by Sessions, one object for each task. Does no I/O.
#pragma once

#include <cstdint>

#include "absl/container/btree_set.h"

namespace paracord {

class GivenSplits {
 public:
  // `from_before`: the process worked under an earlier coordinator, whose leases are not known
  // here.
  explicit GivenSplits(bool from_before) : from_before_(from_before) {}

  void Add(uint64_t split) { splits_.insert(split); }
  // Forgets all splits below `split`: their epochs are over, and no worker reports on them any
  // more.
  void ForgetBefore(uint64_t split) { splits_.erase(splits_.begin(), splits_.lower_bound(split)); }
  // Whether the process may report on the split's batches; always true if `from_before`.
  bool MayKnow(uint64_t split) const { return from_before_ || splits_.contains(split); }

 private:
  bool from_before_;
  absl::btree_set<uint64_t> splits_;
};

}  // namespace paracord
