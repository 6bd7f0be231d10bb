// Reads the present state of a partition, for the oracles of a simulated cluster. Any thread that
// may call the partition may call these functions.
#pragma once

#include <vector>

#include "sim/counting_workload.h"
#include "store/partition.h"
#include "stored_tensors.h"

namespace paracord {

// Returns the values of a partition; of a growing table the rows of CountingIdsOf, zero where the
// table lacks a row.
std::vector<float> SeenValues(const CountingOptions& counting, const Partition& partition);
// Returns an image of a partition, as a checkpoint stores it.
StoredTensors ImageOf(const Partition& partition);

}  // namespace paracord
