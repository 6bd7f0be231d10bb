// Prints the plan of a job before the job runs: the cluster, the variables, and the ps of each
// partition. Only writes to the stream.
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

// Prints how many batches a round of the job has, and what is counted in rounds; prints nothing for
// a job without rounds. `devices` is the number of devices of all workers that the cluster names;
// nullopt: the cluster is unknown. An error is one of RoundBatchesOf.
absl::Status PrintRounds(const Job& job, std::optional<size_t> devices, std::ostream& out);

// Prints the variables, their partitions, and the bytes of each holder with and without the
// optimizer's state. The state is `slots` tensors of the size of each trainable partition.
// `warnings` gets a warning if there are very many small partitions. An error says why the
// variables cannot be partitioned or placed.
absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables,
                       const Holders& holders, uint64_t slots, std::ostream& out,
                       Problems& warnings);

// Returns the most bytes that checkpoints take on disk at once: those that the job's key
// `checkpoint` keeps, and one that is being written. A growing table counts with `rows_max` rows,
// or with no rows if the table has no `rows_max`.
uint64_t CheckpointBytes(const Job& job, std::span<const VariableSpec> variables,
                         const Optimizer& optimizer);

// Prints the bytes of a full checkpoint and of a row of each growing table, and the most bytes that
// checkpoints take on disk at once. Adds a note on each growing table without `rows_max`.
void PrintCheckpoints(const Job& job, std::span<const VariableSpec> variables,
                      const Optimizer& optimizer, std::ostream& out);

}  // namespace paracord
