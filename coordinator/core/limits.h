// Times and bounds of the coordinator's core.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr int64_t kTickMs = 50;  // from one TickEvent to the next
// The pause before a failed disk operation is repeated.
inline constexpr int64_t kRepeatMs = 1000;
// How long a ps may take to write or load all its partitions. Partitions that take longer to write
// never get a checkpoint.
inline constexpr int64_t kAllOfPsMs = 3600 * 1000;

// A split whose lease is this old may be leased to a second worker as well.
inline constexpr int64_t kStragglerMs = 5000;
// The most leases that a session has at once. Workers need only a few.
inline constexpr uint64_t kLeasesOfSessionMax = 16;
// In a job with lanes, one worker may hold all of them.
inline uint64_t LeasesOfSessionMax(const DataPlan& plan) {
  return std::max<uint64_t>(kLeasesOfSessionMax, plan.lanes());
}
// The most bytes of a worker's message that is kept: the facts of a job, or an evaluation report.
inline constexpr uint64_t kKeptReportBytesMax = uint64_t{16} << 20;

}  // namespace paracord
