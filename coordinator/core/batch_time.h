// How long a session takes for a batch, from what its worker reports of its computations. The first
// batches count for nothing, because opening data and model is in their time, and what follows is
// taken together until it is long enough to be measured. Each measurement at most doubles or halves
// the estimate, so one pause or one false report moves few lanes. A worker that computes nothing
// keeps its last time. Pure; one in each session.
#pragma once

#include <cstdint>

namespace paracord {

class BatchTime {
 public:
  // A report says that so many `batches` were computed in `seconds`, which are finite and not
  // negative.
  void Add(uint64_t batches, double seconds);
  // For a batch, as a mean in which the newest ones count most; 0: not known yet.
  double seconds() const { return seconds_; }

 private:
  bool warm_ = false;  // the first batches have been computed
  uint64_t batches_ = 0;
  double taken_ = 0;  // for `batches_`, which have not been measured
  double seconds_ = 0;
};

}  // namespace paracord
