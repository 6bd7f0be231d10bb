// The things that a worker computes with once it knows the job: the gradient program, batches of
// the training data and records of the test data. All of it is used on the executor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"
#include "data/data_source.h"
#include "program/gradient_clip.h"
#include "program/gradient_program.h"
#include "program/lane_devices.h"
#include "proto/paracord.pb.h"

namespace paracord {

// A feed prepares no more batches ahead, of one that is computed at a time.
inline constexpr size_t kUpcomingMax = 3;

// The batches of the training data.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Called once before the first Get.
  virtual void Start(const DataPlan& plan) = 0;
  // Returns a batch, which stays valid until the next call. The batches `upcoming` usually follow,
  // in that order, so an implementation may prepare them meanwhile. An error names file and record.
  virtual absl::StatusOr<const Batch*> Get(const BatchId& id,
                                           std::span<const BatchId> upcoming) = 0;
  // A batch that is about to be asked for, if it is prepared without disturbing others; else null.
  // It stays valid until the next Get, as does the batch of the last Get.
  virtual const Batch* Peek(const BatchId& /*id*/) { return nullptr; }
};

struct Workload {
  JobFacts facts;
  std::unique_ptr<GradientProgram> program;
  // With several devices that compute lanes, of which the first is that of `program`; null: one.
  std::unique_ptr<LaneDevices> devices;
  std::unique_ptr<BatchFeed> feed;
  std::unique_ptr<DataSource> test;  // null: the job has no test data
  GradientClip clip;
  std::string device;                 // which computes, where that is known
  std::string numerics;               // what the bits of gradients depend on (tensor/device.h)
  std::vector<std::string> warnings;  // of the data, as DataSource has them
};

// Opens the data and builds the model, and so finds everything that can be wrong with a job on this
// machine.
using OpenWorkloadFn = std::function<absl::StatusOr<Workload>(const Job& job)>;

// Checks that the test data have the columns of the training data. The error has a line for each
// column that differs.
absl::Status CheckSameColumns(const Batch& train, const Batch& test);

// Every batch of training, the last one of an epoch too, has a size that the program can compute.
absl::Status CheckBatchSizes(const GradientProgram& program, const Job& job, uint64_t records);

// Builds the gradient program of a job for examples of this schema.
using BuildProgramFn = std::function<absl::StatusOr<std::unique_ptr<GradientProgram>>(
    const Job& job, const Batch& schema)>;
// Opens the readers of the job and builds its program. Facts about the files that take long to find
// are kept in `keep` for the next process that opens them. The records that readers hold are
// reserved in `memory`; null: there is no limit.
absl::StatusOr<Workload> OpenWorkload(Files& files, Job job, const BuildProgramFn& build,
                                      const KeepPlace& keep = {},
                                      const std::shared_ptr<MemoryShare>& memory = nullptr);

// Opens `data` alone as the workload's test data, and builds the program from its schema, for
// values that are there already: nothing of the training data is read, and there is no feed.
absl::StatusOr<Workload> OpenSource(Files& files, const Job& job, DataSpec data,
                                    const BuildProgramFn& build, const KeepPlace& keep = {});
// Returns the job whose program predicts for the records of `data`, which have neither labels nor
// weights: it has no losses and no metrics, and these records alone (key inputs_alone).
Job PredictingJob(Job job, DataSpec data);

}  // namespace paracord
