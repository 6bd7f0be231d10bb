// Prints what a job comes to before it runs: the cluster, the variables, and which ps holds what.
// Pure but for the stream.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>

#include "absl/status/status.h"
#include "config/cluster.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "proto/paracord.pb.h"

namespace paracord {

void PrintCluster(const Cluster& cluster, std::ostream& out);

// The variables, their partitions, and the bytes of each ps with and without optimizer state, which
// takes `slots` copies of every trainable partition. What is surely a mistake is a warning.
absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables, uint32_t ps_count,
                       uint64_t slots, std::ostream& out, Problems& warnings);

}  // namespace paracord
