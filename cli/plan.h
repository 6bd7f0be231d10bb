// Prints the plan of a job before it runs: the cluster, the variables, and which ps holds which
// partitions. Pure but for the stream.
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

// Prints what a round of a job is, and what counts rounds; nothing of a job without them. `devices`
// are those of all the workers that the cluster names, nullopt if no cluster is known. An error:
// there is no such round.
absl::Status PrintRounds(const Job& job, std::optional<size_t> devices, std::ostream& out);

// Prints the variables, their partitions, and the bytes of each holder with and without the
// optimizer's state, which takes `slots` copies of every trainable partition. Probable mistakes are
// warnings. An error says why the variables cannot be partitioned or placed.
absl::Status PrintPlan(const Job& job, std::span<const VariableSpec> variables,
                       const Holders& holders, uint64_t slots, std::ostream& out,
                       Problems& warnings);

// Prints what a row of each growing table takes, and what checkpoints take on disk, of which as
// many are there at once as `checkpoint` of the job says. A growing table without `rows_max` is
// warned of.
void PrintCheckpoints(const Job& job, std::span<const VariableSpec> variables,
                      const Optimizer& optimizer, std::ostream& out);

}  // namespace paracord
