// A gradient program in a child process, which maps the same memory (proto/PROGRAM.md). A child
// that ends, hangs or answers what it must not is lost, which is never the batch's fault: it is
// started again, and the batch computed anew. Losses at three batches within a minute are
// DATA_LOSS, as of a device. Three losses at one batch are FAILED_PRECONDITION: the program cannot
// compute the batch, on any machine.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/program_spec.h"
#include "program/child_process.h"
#include "program/compiled_form.h"
#include "program/gradient_program.h"
#include "program/program_folder.h"
#include "program/program_memory.h"
#include "program/program_packets.h"
#include "program/program_tables.h"

namespace paracord {

// How this process runs programs of a job.
struct ProgramUse {
  bool allowed = false;  // a command in a job is code of whoever wrote the job
  std::string device;    // PARACORD_DEVICE of the child
  std::string task;      // its PARACORD_TASK
  int threads = 1;       // its OMP_NUM_THREADS, unless that is set
  // Modules of StableHLO are kept here that a plug-in has compiled.
  CompiledPlace compiled = {};
  bool compiles = true;  // false: modules of StableHLO are only checked, without a plug-in
  uint64_t memory_max = UINT64_MAX;  // bytes that this process may take
  // Called with each line that the program prints, and with the reason of each restart. Called on
  // any thread.
  std::function<void(const std::string& line)> log;
  // The programs' children, which the end of a process that leaves without destructors ends.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ProcessProgram : public GradientProgram {
 public:
  // Starts the program of the job's model for data of this schema. PERMISSION_DENIED if it is not
  // allowed; INVALID_ARGUMENT has one line for each problem.
  static absl::StatusOr<std::unique_ptr<ProcessProgram>> Start(const Job& job, const Batch& schema,
                                                               ProgramUse use);
  ~ProcessProgram() override;  // says goodbye to the child

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // The metrics that the program evaluates itself; there may be none.
  const std::vector<std::string>& metric_names() const override { return hello_.metrics; }
  const std::vector<ProgramOutput>& outputs() const { return hello_.outputs; }
  std::vector<uint32_t> BatchSizes() const override { return hello_.batches; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override;
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override;
  void UseRows(std::shared_ptr<const TableRows> rows) override { rows_ = std::move(rows); }
  std::string Summary() const override;
  std::string Memory() const override;
  Losses TakeLosses() override { return std::exchange(losses_, {}); }

 private:
  ProcessProgram(ProgramSpec spec, ProgramUse use, const Batch& schema, Job job);
  absl::Status Launch();  // starts a child, and takes its hello if it is the first
  absl::StatusOr<ProgramHello> TakeHello();
  absl::Status LayOutFirst(ProgramHello hello);
  absl::Status TellLayout();
  // Gives the child batch and values and calls `act`, until that does not lose the child, which
  // `act` says by UNAVAILABLE.
  template <class Act>
  absl::Status WithChild(const Batch& batch, ConstTensors values, const Act& act);
  // `times`: how often the child has been lost at the batch that is computed.
  absl::Status AfterLoss(const absl::Status& why, size_t times);
  absl::Status Check(const Batch& batch) const;
  absl::Status SameAsBefore(const Batch& batch) const;
  absl::StatusOr<RowsInUse> RowsFor(const Batch& batch) const;
  void SayRows(nlohmann::json& request) const;
  int64_t start_ms() const { return int64_t{job_.timeouts.start_s} * 1000; }
  // Sends a request and waits for its answer: INVALID_ARGUMENT if that is an error of the batch.
  absl::StatusOr<nlohmann::json> Ask(const nlohmann::json& request);
  absl::Status Step(const nlohmann::json& request, MutableTensors gradients,
                    std::vector<bool>& reported, double& loss);
  absl::Status TakeGradient(const nlohmann::json& packet, MutableTensors gradients,
                            std::vector<bool>& reported);

  const ProgramSpec spec_;
  const ProgramUse use_;
  const Batch schema_;
  const Job job_;
  std::unique_ptr<ProgramFolder> folder_;
  std::unique_ptr<ChildProcess> child_;  // null: lost, or not started
  ProgramHello hello_;
  std::vector<VariableSpec> variables_;  // of hello_, tables as the ps keep them
  ProgramTables tables_;
  ProgramLayout layout_;
  ProgramMemory memory_;  // of the child
  bool known_ = false;    // what a first child has said
  std::shared_ptr<const TableRows> rows_;
  RowsInUse in_use_;  // of the batch that is computed
  std::function<void(size_t)> there_;
  std::deque<int64_t> losses_ms_;  // the first loss at each batch, of the last minute
  Losses losses_;                  // since they were taken
};

}  // namespace paracord
