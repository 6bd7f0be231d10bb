// Computes one batch of a job as a worker does, but without a cluster, to test the job.
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
  std::shared_ptr<const TableRows> rows;  // that `train`'s batch reads; null: none
};

// Computes the loss and the gradients of a batch of the first examples of `train`, with the job's
// initial values, and the metrics of the first examples of `test` unless `test` is null. Initial
// values are from `weights`; those of growing tables, and of variables that `weights` (null: none)
// lacks, are from the initializers. INVALID_ARGUMENT names `data.train` or `data.test`, and says
// what is wrong with its batch, such as a loss or gradient that is not finite.
absl::StatusOr<TriedBatch> TryBatch(const Job& job, const DataSource& train, const DataSource* test,
                                    const InitialWeights* weights, GradientProgram& program);

}  // namespace paracord
