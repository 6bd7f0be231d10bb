// An estimate of the time that a worker takes for a batch, from the worker's reports. By the
// estimates of all workers the core shares out the lanes. The first report does not count, because
// it includes opening the data and the model. Later reports are added up until they span 50 ms,
// enough for a clock of milliseconds. Each measurement at most doubles or halves the estimate, so
// one pause or one false report moves few lanes between workers. A report of no batches changes
// nothing. Does no I/O. Each worker session owns one BatchTime.
#pragma once

#include <cstdint>

namespace paracord {

class BatchTime {
 public:
  // Adds a report: `batches` were computed in `seconds` (finite, not negative).
  void Add(uint64_t batches, double seconds);
  // The estimate in seconds a batch, a mean weighted towards the newest batches; 0: not known yet.
  double seconds() const { return seconds_; }

 private:
  bool warm_ = false;  // the first report has been skipped
  uint64_t batches_ = 0;
  double taken_ = 0;  // seconds spent on `batches_`
  double seconds_ = 0;
};

}  // namespace paracord
