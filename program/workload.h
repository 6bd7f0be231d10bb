// The worker's tools for a job: the gradient program, batches of the training data and records of
// the test data. Used on the executor's thread only.
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

// The most batches a feed prepares ahead, for a single batch computed at a time.
inline constexpr size_t kUpcomingMax = 3;

// The batches of the training data.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Called once before the first Get.
  virtual void Start(const DataPlan& plan) = 0;
  // Returns a batch, valid until the next call. The batches `upcoming` usually follow, in order; an
  // implementation may prepare them meanwhile. An error names file and record.
  virtual absl::StatusOr<const Batch*> Get(const BatchId& id,
                                           std::span<const BatchId> upcoming) = 0;
  // A batch about to be requested, if already prepared without disturbing others; else null. Valid
  // until the next Get, like the batch of the last Get.
  virtual const Batch* Peek(const BatchId& /*id*/) { return nullptr; }
};

struct Workload {
  JobFacts facts;
  std::unique_ptr<GradientProgram> program;
  // Several devices that compute lanes, the first with `program`; null: a single device.
  std::unique_ptr<LaneDevices> devices;
  std::unique_ptr<BatchFeed> feed;
  std::unique_ptr<DataSource> test;  // null: the job has no test data
  GradientClip clip;
  std::string device;    // the computing device, where known
  std::string numerics;  // everything that the gradients' bits depend on (tensor/device.h)
  std::vector<std::string> warnings;  // warnings of the DataSource
};

// Opens the data and builds the model, and thereby finds every error of a job on this machine.
using OpenWorkloadFn = std::function<absl::StatusOr<Workload>(const Job& job)>;

// Checks that the test data have the columns of the training data. The error has a line for each
// differing column.
absl::Status CheckSameColumns(const Batch& train, const Batch& test);

// Checks that the program supports the size of every training batch, including an epoch's last.
absl::Status CheckBatchSizes(const GradientProgram& program, const Job& job, uint64_t records);

// Builds the gradient program of a job for examples of this schema.
using BuildProgramFn = std::function<absl::StatusOr<std::unique_ptr<GradientProgram>>(
    const Job& job, const Batch& schema)>;
// Opens the readers of the job and builds the program. Facts about files that are slow to find are
// kept in `keep` for later processes. Records held by readers are reserved in `memory`; null: no
// limit.
absl::StatusOr<Workload> OpenWorkload(Files& files, Job job, const BuildProgramFn& build,
                                      const KeepPlace& keep = {},
                                      const std::shared_ptr<MemoryShare>& memory = nullptr);

// Opens only `data`, as the workload's test data, and builds the program from its schema, for
// existing values: reads no training data, and makes no feed.
absl::StatusOr<Workload> OpenSource(Files& files, const Job& job, DataSpec data,
                                    const BuildProgramFn& build, const KeepPlace& keep = {});
// Returns the job whose program predicts for the records of `data`. The job has no labels, weights,
// losses or metrics (key inputs_alone). Its records are read in the order of the file, with memory
// that does not grow with the file.
Job PredictingJob(Job job, DataSpec data);

}  // namespace paracord
