// What is needed to compute a job, in a worker, in an evaluator or on the command line: the
// gradient program, the batches of the training data and the records of the test data. Used by one
// thread at a time; workers and evaluators use the thread of the executor (common/executor.h).
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

// The most batches that a BatchFeed has prepared besides the batch of the last Get.
inline constexpr size_t kUpcomingMax = 3;

// The batches of the training data.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Called before the first Get, and before the first Get with another data plan.
  virtual void Start(const DataPlan& plan) = 0;
  // Returns a batch, valid until the next Get. `upcoming`: the batches that the caller will
  // probably ask for next, in this order; an implementation may prepare them meanwhile. An error of
  // reading names file and record. OUT_OF_RANGE: the data plan has no such batch.
  virtual absl::StatusOr<const Batch*> Get(const BatchId& id,
                                           std::span<const BatchId> upcoming) = 0;
  // Returns one of the batches in the last `upcoming` if it is already prepared; otherwise null.
  // The batch is valid until the next Get.
  virtual const Batch* Peek(const BatchId& /*id*/) { return nullptr; }
};

struct Workload {
  JobFacts facts;
  std::unique_ptr<GradientProgram> program;
  // The devices that compute lanes side by side, the first by `program`. Null: a single device.
  std::unique_ptr<LaneDevices> devices;
  std::unique_ptr<BatchFeed> feed;    // null: the training data were not opened (OpenSource)
  std::unique_ptr<DataSource> test;   // null: the job has no test data
  GradientClip clip;                  // off in synchronous training, where the ps clip
  std::string device;                 // the name of the device that computes; "": not known
  std::string numerics;               // what the bits of gradients depend on (tensor/device.h)
  std::vector<std::string> warnings;  // DataSource::Warnings
};

// Opens a job's data and builds its model. Errors say what is wrong with the job on this machine.
using OpenWorkloadFn = std::function<absl::StatusOr<Workload>(const Job& job)>;

// Checks that the test data have the input and target columns of the training data. The error has a
// line for each column that differs.
absl::Status CheckSameColumns(const Batch& train, const Batch& test);

// Checks that the program supports the size of every training batch, also of the last batch of an
// epoch and, if the job skips unreadable records, of every smaller batch.
absl::Status CheckBatchSizes(const GradientProgram& program, const Job& job, uint64_t records);

// Builds the gradient program of a job for examples of this schema.
using BuildProgramFn = std::function<absl::StatusOr<std::unique_ptr<GradientProgram>>(
    const Job& job, const Batch& schema)>;
// Opens the readers of the job's data and builds the program. `keep`: where facts about files that
// are slow to find out are kept for later processes. `memory`: limits the memory of the records
// that readers hold; null: no limit.
absl::StatusOr<Workload> OpenWorkload(Files& files, Job job, const BuildProgramFn& build,
                                      const KeepPlace& keep = {},
                                      const std::shared_ptr<MemoryShare>& memory = nullptr);

// Opens `data` as the workload's test data and builds the program for the schema of `data`, to
// evaluate or predict. Opens no training data.
absl::StatusOr<Workload> OpenSource(Files& files, const Job& job, DataSpec data,
                                    const BuildProgramFn& build, const KeepPlace& keep = {});
// Returns a job to predict for the records of `data`, which the job has as its `train`. The job has
// no losses and metrics, and reads no labels and weights (DataSpec.inputs_alone). Its readers may
// take little memory only, because records are read in the order of the file.
Job PredictingJob(Job job, DataSpec data);

}  // namespace paracord
