// The model of `paracord predict`: a checkpoint or a file of weights, the job that describes the
// model and the data, and the program that predicts. Blocking, in main's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/checkpoint_choice.h"
#include "cli/weights_file.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "config/job.h"
#include "program/workload.h"
#include "worker/scored_checkpoint.h"

namespace paracord {

struct PredictModelFlags {
  std::string dir, weights;     // absolute paths, one at most
  std::optional<int64_t> step;  // step of the checkpoint to choose
  std::string job;              // absolute path; "": the job in the checkpoint
  std::vector<std::string> set;
  std::optional<int64_t> batch;  // replaces the batch of the job
  std::string device = "auto";
  std::string memory_limit;
  bool allow_programs = false;
};

class PredictModel {
 public:
  // Chooses the checkpoint, if `flags` name a directory, and reads the job. `notes` gets lines for
  // people and must outlive the result. After an error, `code` is the exit code.
  static absl::StatusOr<std::unique_ptr<PredictModel>> Choose(Files& files, PredictModelFlags flags,
                                                              std::ostream& notes, ExitCode& code);

  const Job& job() const { return job_; }
  uint32_t batch() const { return job_.batch; }
  std::string name() const;  // names the checkpoint or the file of weights, for people

  // Opens the records and builds a program for them. INVALID_ARGUMENT names what does not fit the
  // model.
  absl::Status Open(const DataSpec& data);
  // Builds the program for records of this schema, which the caller provides.
  absl::Status Build(const Batch& schema);

  const DataSource& source() const { return *workload_.test; }
  // Returns the number of examples that a batch for Predict should have, if `examples` are at hand:
  // more if the program is made for batches of some sizes only.
  uint32_t SizeFor(uint32_t examples) const;
  // Returns a row of a growing table for each id: the trained row, or the initial values of an id
  // without a row. INVALID_ARGUMENT: the checkpoint has no such table, or there is no checkpoint.
  absl::StatusOr<std::vector<float>> Rows(const std::string& table, std::span<const uint64_t> ids);
  // Returns the model's outputs for the batch. INVALID_ARGUMENT, among others: the model is a
  // program that declares no outputs.
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch);

 private:
  PredictModel(Files& files, PredictModelFlags flags, std::ostream& notes)
      : files_(files), flags_(std::move(flags)), notes_(notes) {}
  absl::Status ReadJob();
  BuildProgramFn Builder();
  absl::Status TakeValues();

  Files& files_;
  const PredictModelFlags flags_;
  std::ostream& notes_;
  Job job_;
  std::optional<ChosenCheckpoint> chosen_;
  Weights weights_;  // if there is no checkpoint
  std::string device_;
  Workload workload_;
  std::optional<ScoredCheckpoint> scored_;
  std::optional<RowsForBatch> rows_;  // for Rows(); nullopt before its first call
};

}  // namespace paracord
