// What `paracord predict` predicts with: the values of a checkpoint or a file of weights, the job
// that describes the model and the data, and the program that computes. Blocking, in main's thread.
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
  std::string dir, weights;     // absolute paths; at most one is not empty
  std::optional<int64_t> step;  // the step of the checkpoint; nullopt: ChooseCheckpoint chooses
  std::string job;              // absolute path; "": the checkpoint has the job
  std::vector<std::string> set;
  std::optional<int64_t> batch;  // replaces the batch of the job
  std::string device = "auto";
  std::string memory_limit;
  bool allow_programs = false;
};

class PredictModel {
 public:
  // Reads the job, and chooses the checkpoint if `flags.dir` is not empty. `notes` gets lines for
  // people and must outlive the result. If Choose fails, `code` is the exit code.
  static absl::StatusOr<std::unique_ptr<PredictModel>> Choose(Files& files, PredictModelFlags flags,
                                                              std::ostream& notes, ExitCode& code);

  const Job& job() const { return job_; }
  uint32_t batch() const { return job_.batch; }
  std::string name() const;  // the checkpoint or the file of weights, for people

  // Opens the records of `data` and builds the program for them. INVALID_ARGUMENT names what does
  // not fit the model.
  absl::Status Open(const DataSpec& data);
  // Builds the program for batches that the caller makes. `schema` has the columns of such a batch.
  absl::Status Build(const Batch& schema);

  const DataSource& source() const { return *workload_.test; }
  // Returns how many examples the caller should put into a batch for `examples` examples: more than
  // `examples` if the program computes batches of certain sizes only.
  uint32_t SizeFor(uint32_t examples) const;
  // Returns a row of a growing table for each id: the row in the checkpoint, or, for an id without
  // a row, the initial values. INVALID_ARGUMENT: the checkpoint has no such table, or there is no
  // checkpoint.
  absl::StatusOr<std::vector<float>> Rows(const std::string& table, std::span<const uint64_t> ids);
  // Returns the model's outputs. INVALID_ARGUMENT, for one, if a program declares no outputs.
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
  Weights weights_;  // the values, if there is no checkpoint
  std::string device_;
  Workload workload_;
  std::optional<ScoredCheckpoint> scored_;
  std::optional<RowsForBatch> rows_;  // made by the first call of Rows()
};

}  // namespace paracord
