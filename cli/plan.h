// Prints the plan of a job before it runs: the cluster, the variables, and the placement of
// partitions on ps. Pure but for the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>

#include "absl/status/status.h"
#include "cli/batch_needs.h"
#include "config/cluster.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "proto/paracord.pb.h"
#include "store/optimizer.h"

namespace paracord {

void PrintCluster(const Cluster& cluster, std::ostream& out);

// Prints what a round of a job is, and which keys count in rounds; nothing for a job without
// rounds. `devices` counts the devices of all workers that the cluster names; nullopt without a
// known cluster. An error: no such round is possible.
absl::Status PrintRounds(const Job& job, std::optional<size_t> devices, std::ostream& out);

// Prints the variables, their partitions, and the bytes of each holder with and without the
// optimizer's state, which takes `slots` copies of every trainable partition. Probable mistakes are
// warnings. An error says why the variables cannot be partitioned or placed.
absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables,
                       const Holders& holders, uint64_t slots, std::ostream& out,
                       Problems& warnings);

// Returns the bytes of all checkpoints that are on disk at once, as many as `checkpoint` of the job
// keeps, with as many rows of growing tables as `rows_max` allows. A table without `rows_max`
// counts nothing.
uint64_t CheckpointBytes(const Job& job, std::span<const VariableSpec> variables,
                         const Optimizer& optimizer);

// Prints the bytes of a row of each growing table, and of the checkpoints on disk, as many as
// `checkpoint` of the job keeps at once. Warns about a growing table without `rows_max`.
void PrintCheckpoints(const Job& job, std::span<const VariableSpec> variables,
                      const Optimizer& optimizer, std::ostream& out);

}  // namespace paracord
