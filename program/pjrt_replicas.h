// Runs modules of StableHLO that were exported for several replicas: each device of a client
// computes a batch, and an all-reduce in the module adds up the gradients. Used by one thread.
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
  // INVALID_ARGUMENT if the file has steps for several replicas, unless the job has `consistency`
  // "sync" and `reduce` "fast". A job whose strategy is not chosen yet counts as synchronous.
  static absl::Status CheckJob(const Job& job, const ProgramFile& file);
  // INVALID_ARGUMENT if the client has not as many devices as the file has replicas, or if the data
  // do not fit the file. `file`, `schema`, `tables` and `client` must outlive this object. `use`:
  // what the client was opened with.
  static absl::StatusOr<std::unique_ptr<PjrtReplicas>> Make(const ProgramFile& file,
                                                            const Batch& schema,
                                                            const ProgramTables& tables,
                                                            const PjrtClient& client,
                                                            const PjrtUse& use);

  // Runs a module once, with equal arguments on each device, and copies one result after another to
  // `taken`, which must have room for the largest.
  absl::Status Try(const CompiledModule& compiled,
                   const std::vector<PjrtClient::Argument>& arguments, void* taken) const;
  // Does GradientProgram::ComputeSum by the module `step`, which is for batches.size() replicas.
  absl::StatusOr<std::vector<double>> Compute(const CompiledModule& step,
                                              std::span<const KeyedBatch> batches,
                                              ConstTensors values, MutableTensors sum);

 private:
  explicit PjrtReplicas(const PjrtClient& client) : client_(client), batches_(client.devices()) {}

  const PjrtClient& client_;
  std::vector<PjrtBatch> batches_;  // one for each device
};

}  // namespace paracord
