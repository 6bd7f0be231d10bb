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

// Prints how many batches a round of a job has, and what counts in rounds; nothing for a job
// without rounds. `devices` is the number of devices of all workers that the cluster names;
// nullopt: the cluster is unknown. An error: a round of so many batches is impossible.
absl::Status PrintRounds(const Job& job, std::optional<size_t> devices, std::ostream& out);

// Prints the variables, their partitions, and the bytes of each holder with and without the
// optimizer's state, which takes `slots` copies of every trainable partition. `warnings` gets a
// warning if there are very many small partitions. An error says why the variables cannot be
// partitioned or placed.
absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables,
                       const Holders& holders, uint64_t slots, std::ostream& out,
                       Problems& warnings);

// Returns the most bytes of checkpoints on disk at once: the job's key `checkpoint` says how many
// are kept, and one more is being written. A growing table counts with `rows_max` rows, or with no
// rows if it has no `rows_max`.
uint64_t CheckpointBytes(const Job& job, std::span<const VariableSpec> variables,
                         const Optimizer& optimizer);

// Prints the bytes of a row of each growing table and of a full checkpoint, and the most bytes of
// checkpoints on disk at once. Adds a note on each growing table without `rows_max`.
void PrintCheckpoints(const Job& job, std::span<const VariableSpec> variables,
                      const Optimizer& optimizer, std::ostream& out);

}  // namespace paracord
