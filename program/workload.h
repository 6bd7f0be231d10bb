// A worker's tools for a job: the gradient program, batches of the training data and records of the
// test data. Used on the thread of the executor (common/executor.h).
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

// The most batches that a feed prepares ahead of a Get.
inline constexpr size_t kUpcomingMax = 3;

// The batches of the training data.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Called before the first Get of each session, with the session's data plan.
  virtual void Start(const DataPlan& plan) = 0;
  // Returns a batch, valid until the next Get. The caller will probably ask for the batches
  // `upcoming` next, in this order; an implementation may prepare them meanwhile. An error names
  // file and record. OUT_OF_RANGE: the data plan has no such batch.
  virtual absl::StatusOr<const Batch*> Get(const BatchId& id,
                                           std::span<const BatchId> upcoming) = 0;
  // Returns a batch of the last `upcoming` if the batch is already prepared; else null. Valid until
  // the next Get.
  virtual const Batch* Peek(const BatchId& /*id*/) { return nullptr; }
};

struct Workload {
  JobFacts facts;
  std::unique_ptr<GradientProgram> program;
  // The devices that compute lanes side by side, the first with `program`; null: a single device.
  std::unique_ptr<LaneDevices> devices;
  std::unique_ptr<BatchFeed> feed;    // null: training data were not opened (OpenSource)
  std::unique_ptr<DataSource> test;   // null: the job has no test data
  GradientClip clip;                  // off in synchronous training, where the ps clip
  std::string device;                 // the device that computes; "": not known
  std::string numerics;               // what gradients' bits depend on (tensor/device.h)
  std::vector<std::string> warnings;  // DataSource::Warnings
};

// Opens a job's data and builds its model: what is wrong with the job on this machine shows here.
using OpenWorkloadFn = std::function<absl::StatusOr<Workload>(const Job& job)>;

// Checks that the test data have the input and target columns of the training data. The error has a
// line for each column that differs.
absl::Status CheckSameColumns(const Batch& train, const Batch& test);

// Checks that the program supports the size of every training batch, also of an epoch's last batch
// and of batches without the unreadable records that the job skips.
absl::Status CheckBatchSizes(const GradientProgram& program, const Job& job, uint64_t records);

// Builds the gradient program of a job for examples of this schema.
using BuildProgramFn = std::function<absl::StatusOr<std::unique_ptr<GradientProgram>>(
    const Job& job, const Batch& schema)>;
// Opens the readers of the job's data and builds the program. What is slow to find out about files
// is kept in `keep` for later processes. The memory of records that readers hold is taken from
// `memory`; null: no limit.
absl::StatusOr<Workload> OpenWorkload(Files& files, Job job, const BuildProgramFn& build,
                                      const KeepPlace& keep = {},
                                      const std::shared_ptr<MemoryShare>& memory = nullptr);

// Opens `data` as the workload's test data and builds the program for the schema of `data`, to
// evaluate or predict. Opens no training data, and makes no feed.
absl::StatusOr<Workload> OpenSource(Files& files, const Job& job, DataSpec data,
                                    const BuildProgramFn& build, const KeepPlace& keep = {});
// Returns the job whose program predicts for the records of `data`, which become job.train. The job
// has no losses and metrics, and reads no labels and weights (DataSpec.inputs_alone). Its readers
// take little memory, because records are read in the order of the file.
Job PredictingJob(Job job, DataSpec data);

}  // namespace paracord
