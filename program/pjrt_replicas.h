// Runs modules of StableHLO that were exported for several replicas: each device of a client
// computes a batch, and the modules' own all-reduce adds up the gradients of all. Used by one
// thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "program/pjrt_batch.h"
#include "program/pjrt_client.h"
#include "program/program_file.h"
#include "program/program_tables.h"

namespace paracord {

class PjrtReplicas {
 public:
  // INVALID_ARGUMENT names `consistency` and `reduce` if a file has steps for several replicas and
  // the job is not synchronous, or wants exact sums. A job whose strategy is not chosen yet counts
  // as synchronous.
  static absl::Status CheckJob(const Job& job, const ProgramFile& file);
  // INVALID_ARGUMENT unless the client has a device for each of the file's replicas. File, schema,
  // tables and client outlive this object; `use` has chosen the client's devices.
  static absl::StatusOr<std::unique_ptr<PjrtReplicas>> Make(const ProgramFile& file,
                                                            const Batch& schema,
                                                            const ProgramTables& tables,
                                                            const PjrtClient& client,
                                                            const PjrtUse& use);

  // Runs a module with equal arguments on each device. `taken` has room for any of the results.
  absl::Status Try(const CompiledModule& compiled,
                   const std::vector<PjrtClient::Argument>& arguments, void* taken) const;
  // As GradientProgram::ComputeSum. `step` is for as many replicas as there are batches.
  absl::StatusOr<std::vector<double>> Compute(const CompiledModule& step,
                                              std::span<const KeyedBatch> batches,
                                              ConstTensors values, MutableTensors sum);

 private:
  explicit PjrtReplicas(const PjrtClient& client) : client_(client), batches_(client.devices()) {}

  const PjrtClient& client_;
  std::vector<PjrtBatch> batches_;  // the batch of each device
};

}  // namespace paracord
