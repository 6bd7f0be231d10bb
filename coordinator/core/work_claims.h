// The work that a session can have done: the batches of its leases, each computed once, and the
// unreported batches of earlier sessions of its task. A report beyond that cannot be true, and is
// not counted, so that nobody can write any number into the status and the summary. Pure; one in
// each session.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct WorkClaims {
  uint64_t granted = 0;  // batches
  uint64_t computed = 0;
  uint64_t told = 0;  // batches that it told the history of
  uint64_t duplicates = 0;
  uint64_t samples = 0;
  uint64_t staleness_sum = 0;
  double waited_seconds = 0;  // for lanes of others

  void Grant(const Lease& lease) { granted += lease.end_batch() - lease.first_batch(); }
  // The end of a lease at hand moves on by so many batches.
  void Extend(uint64_t batches) { granted += batches; }
  // Counts what a report says. INVALID_ARGUMENT, with the number that cannot be, and nothing is
  // counted: `batches` is how many the job has in all. Nobody waits for longer than the
  // `elapsed_seconds` since the report before, of which no more are counted.
  absl::Status Add(const WorkRequest& report, const DataPlan& plan, uint64_t batches,
                   double elapsed_seconds);
};

}  // namespace paracord
