// Computes one batch of a job as a worker does, but without a cluster, as a test.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "store/initial_weights.h"

namespace paracord {

struct TriedBatch {
  std::string line;                       // describes the result for people
  std::shared_ptr<const TableRows> rows;  // what the training batch reads; null: no tables
};

// Computes the loss and gradients of a batch of the first examples of `train`, with the job's
// initial values, and the metrics of the first examples of `test`, unless that is null. With null
// `weights` all initial values are drawn. INVALID_ARGUMENT names `data.train` or `data.test`, and
// what is wrong with the batch, such as a loss or gradient that is not finite.
absl::StatusOr<TriedBatch> TryBatch(const Job& job, const DataSource& train, const DataSource* test,
                                    const InitialWeights* weights, GradientProgram& program);

}  // namespace paracord
