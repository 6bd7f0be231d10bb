// A gradient program in a child process with shared memory (proto/PROGRAM.md). A child that exits,
// hangs or breaks the protocol counts as lost: a new child is started and computes the batch anew.
// If children are lost at three batches within a minute, the error is DATA_LOSS, as for a lost
// device. If three children are lost at a single batch, the error is FAILED_PRECONDITION: no
// machine can compute the batch. After RunningChildren::EndAll a lost child means CANCELLED.
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

// How this process runs programs of jobs.
struct ProgramUse {
  bool allowed = false;  // whether commands of jobs may run, which are code of the job's author
  std::string device;    // PARACORD_DEVICE in the child's environment
  std::string task;      // PARACORD_TASK in the child's environment
  // OMP_NUM_THREADS in the child's environment, unless this process's environment has the variable.
  int threads = 1;
  // Where compiled StableHLO modules are kept.
  CompiledPlace compiled = {};
  bool compiles = true;  // false: modules of StableHLO are only checked, without a plug-in
  uint64_t memory_max = UINT64_MAX;  // the most bytes of memory that this process may take
  // Called on any thread with each line of the child's output, and with the reason of each restart.
  std::function<void(const std::string& line)> log;
  // The registry that children are entered in; null: none.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ProcessProgram : public GradientProgram {
 public:
  // Starts the program of the job's model for data of this schema. PERMISSION_DENIED unless
  // `use.allowed`; INVALID_ARGUMENT: the program does not start, or does not fit job and data.
  static absl::StatusOr<std::unique_ptr<ProcessProgram>> Start(const Job& job, const Batch& schema,
                                                               ProgramUse use);
  ~ProcessProgram() override;  // says "bye" to the child, waits up to 2 s, then kills the child

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // The metrics that the program itself evaluates; empty: none.
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
  // Starts a child. A later child must declare what the first has declared (CheckSameHello).
  absl::Status Launch();
  absl::StatusOr<ProgramHello> TakeHello();
  absl::Status LayOutFirst(ProgramHello hello);
  absl::Status TellLayout();
  // Starts a child if there is none, gives it the batch and the values, and calls `act`. If `act`
  // returns UNAVAILABLE, which means a lost child, begins anew, unless AfterLoss returns an error.
  template <class Act>
  absl::Status WithChild(const Batch& batch, ConstTensors values, const Act& act);
  // Counts a lost child. `times`: how many children were lost at the present batch.
  absl::Status AfterLoss(const absl::Status& why, size_t times);
  absl::Status Check(const Batch& batch) const;
  absl::Status SameAsBefore(const Batch& batch) const;
  absl::StatusOr<RowsInUse> RowsFor(const Batch& batch) const;
  void SayRows(nlohmann::json& request) const;
  int64_t start_ms() const { return int64_t{job_.timeouts.start_s} * 1000; }
  // Sends a request, unless null, and waits for an answer. An answered error is INVALID_ARGUMENT.
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
  std::unique_ptr<ChildProcess> child_;  // null: the child is lost, or not started
  ProgramHello hello_;
  std::vector<VariableSpec> variables_;  // hello_.variables, with tables as the ps store them
  ProgramTables tables_;
  ProgramLayout layout_;
  ProgramMemory memory_;  // the memory shared with the child
  bool known_ = false;    // hello_ is complete
  std::shared_ptr<const TableRows> rows_;
  RowsInUse in_use_;  // rows of the batch being computed
  std::function<void(size_t)> there_;
  std::deque<int64_t> losses_ms_;  // when the first child was lost at each batch, for a minute
  Losses losses_;                  // lost children since the last TakeLosses
};

}  // namespace paracord
