// What a partition of a simulated cluster has now, for those who check it. Any thread that may call
// the partition.
#pragma once

#include <vector>

#include "sim/counting_workload.h"
#include "store/partition.h"
#include "stored_tensors.h"

namespace paracord {

// Returns its values; of a growing table the rows of CountingIdsOf, which are zero where there are
// none.
std::vector<float> SeenValues(const CountingOptions& counting, const Partition& partition);
// Returns what an image of it has, as a checkpoint would have it.
StoredTensors ImageOf(const Partition& partition);

}  // namespace paracord
