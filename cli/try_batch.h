// Computes one batch of a job as a worker would, without a cluster, to see whether that works.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "store/initial_weights.h"

namespace paracord {

// Computes loss and gradients of the first examples of `train`, with the values with which the job
// begins, and the metrics of the first examples of `test`, which may be null, as may `weights`.
// Returns a line about it, and of a job with tables what its rows ask of each of `ps` ps.
// INVALID_ARGUMENT names `data.train` or `data.test`, and what was wrong
// with the batch; a loss or gradient that is not finite is that, too.
absl::StatusOr<std::string> TryBatch(const Job& job, const DataSource& train,
                                     const DataSource* test, const InitialWeights* weights,
                                     GradientProgram& program, uint32_t ps);

}  // namespace paracord
