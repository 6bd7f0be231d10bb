// Times and bounds that several types of the coordinator's core share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr int64_t kTickMs = 50;
// A disk operation that failed is tried again after this.
inline constexpr int64_t kRepeatMs = 1000;
// The deadline of a ps for writing or loading all its partitions. A state that takes longer to
// write never becomes a checkpoint.
inline constexpr int64_t kAllOfPsMs = 3600 * 1000;

// A lease this old may be given to a second worker.
inline constexpr int64_t kStragglerMs = 5000;
// A worker has a few leases at a time. One that claims to have more gets no others.
inline constexpr uint64_t kLeasesOfSessionMax = 16;
// One worker may have all lanes of a job.
inline uint64_t LeasesOfSessionMax(const DataPlan& plan) {
  return std::max<uint64_t>(kLeasesOfSessionMax, plan.lanes());
}
// The facts of a job, and a report of an evaluation, are kept, and have at most so many bytes.
inline constexpr uint64_t kKeptReportBytesMax = uint64_t{16} << 20;

}  // namespace paracord
