// One exact evaluation: the test records are cut into ranges, and each range is scored by some
// worker and counted once, in whatever order and however often results are reported. Does no I/O.
// Owned by Evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns the size of a range in records: whole batches, at least 8 of them, and more if there
// would be more than 2^14 ranges, since the results of all ranges are kept. Of small ranges little
// is lost when a worker dies.
uint64_t RangeRecords(uint64_t records, uint32_t batch);

class Evaluation {
 public:
  // A range has `range_records` records, the last range perhaps fewer. `metric_names` are the names
  // of the job's metrics, in the order of a report's metrics.
  Evaluation(uint64_t generation, uint64_t epoch, uint64_t records, uint64_t range_records,
             std::vector<std::string> metric_names);

  uint64_t epoch() const { return epoch_; }

  bool HasFree() const;  // whether there is a range to grant
  // Grants a free range to the session; nullopt if no range is free or the session has
  // kLeasesOfSessionMax (limits.h) leases.
  std::optional<EvaluationLease> Grant(uint64_t lease_id, uint64_t session);
  // Whether the session has this lease now.
  bool Has(uint64_t session, uint64_t lease_id) const;
  // Takes the result of a leased range. A report that names no present lease changes nothing and is
  // OK. An error says why the result cannot be used (the worker could not evaluate, or the report
  // does not fit the job); the range is then free again.
  absl::Status Report(const EvaluationReport& report);
  // Frees the session's ranges except those of the leases in `held`; true if one was freed.
  bool EndSession(uint64_t session, const std::set<uint64_t>& held = {});

  bool Done() const { return done_ranges_ == ranges_.size(); }
  // Returns the metrics. The states of all ranges are added up in the order of the records, so the
  // result does not depend on which worker scored which range.
  std::map<std::string, double> Metrics() const;

 private:
  struct Range {
    uint64_t lease = 0;  // 0: not leased
    uint64_t session = 0;
    bool done = false;
    std::vector<MetricState> metrics;
  };

  const uint64_t generation_;
  const uint64_t epoch_;
  const uint64_t records_;
  const uint64_t range_records_;
  const std::vector<std::string> metric_names_;
  std::vector<Range> ranges_;
  uint64_t done_ranges_ = 0;
};

}  // namespace paracord
