// The work that a session can have done: the batches of its leases, each computed once, and batches
// that earlier sessions of its task left unreported. A report beyond that is false and does not
// count, so no worker can write arbitrary numbers into the status and the summary. Does no I/O;
// each session has one.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct WorkClaims {
  uint64_t granted = 0;   // batches of the session's leases
  uint64_t computed = 0;  // batches, by its reports
  uint64_t told = 0;      // batches whose loss was reported to EpochHistory
  uint64_t duplicates = 0;
  uint64_t samples = 0;
  uint64_t staleness_sum = 0;
  double waited_seconds = 0;  // for lanes of other workers

  void Grant(const Lease& lease) { granted += lease.end_batch() - lease.first_batch(); }
  // The end of a lease moves on by `batches`.
  void Extend(uint64_t batches) { granted += batches; }
  // Counts a report, unless a number in it is impossible: then returns INVALID_ARGUMENT, which
  // names the number. `batches`: how many batches the job has; `elapsed_seconds`: the time since
  // the session's previous report, beyond which waiting time does not count.
  absl::Status Add(const WorkRequest& report, const DataPlan& plan, uint64_t batches,
                   double elapsed_seconds);
};

}  // namespace paracord
