// A gradient program in a child process with shared memory (proto/PROGRAM.md). A child that exits,
// hangs or breaks the protocol is lost, and never the batch's fault: the child is restarted, and
// the batch computed anew. Losses at three batches within a minute are DATA_LOSS, like a lost
// device. Three losses at a single batch are FAILED_PRECONDITION: the program cannot compute the
// batch, on any machine.
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
  bool allowed = false;  // a command in a job is code of the job's author
  std::string device;    // PARACORD_DEVICE of the child
  std::string task;      // the child's PARACORD_TASK
  int threads = 1;       // the child's OMP_NUM_THREADS, unless already set
  // Where compiled StableHLO modules are kept.
  CompiledPlace compiled = {};
  bool compiles = true;  // false: modules of StableHLO are only checked, without a plug-in
  uint64_t memory_max = UINT64_MAX;  // bytes allowed to this process
  // Called with each line of the program's output, and with the reason of each restart. Any thread.
  std::function<void(const std::string& line)> log;
  // The running children, ended by a process that exits without destructors.
  std::shared_ptr<RunningChildren> running = nullptr;
};

class ProcessProgram : public GradientProgram {
 public:
  // Starts the program of the job's model for data of this schema. PERMISSION_DENIED unless `use`
  // allows programs; INVALID_ARGUMENT has one line for each problem.
  static absl::StatusOr<std::unique_ptr<ProcessProgram>> Start(const Job& job, const Batch& schema,
                                                               ProgramUse use);
  ~ProcessProgram() override;  // says goodbye to the child

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // The metrics evaluated by the program itself, perhaps none.
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
  absl::Status Launch();  // starts a child; the first child's hello is kept
  absl::StatusOr<ProgramHello> TakeHello();
  absl::Status LayOutFirst(ProgramHello hello);
  absl::Status TellLayout();
  // Gives the child batch and values and calls `act`; repeats while `act` returns UNAVAILABLE,
  // which means a lost child.
  template <class Act>
  absl::Status WithChild(const Batch& batch, ConstTensors values, const Act& act);
  // `times`: losses of a child at the present batch.
  absl::Status AfterLoss(const absl::Status& why, size_t times);
  absl::Status Check(const Batch& batch) const;
  absl::Status SameAsBefore(const Batch& batch) const;
  absl::StatusOr<RowsInUse> RowsFor(const Batch& batch) const;
  void SayRows(nlohmann::json& request) const;
  int64_t start_ms() const { return int64_t{job_.timeouts.start_s} * 1000; }
  // Sends a request and waits for the answer: INVALID_ARGUMENT for an error of the batch.
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
  std::vector<VariableSpec> variables_;  // variables of hello_, with tables as stored by the ps
  ProgramTables tables_;
  ProgramLayout layout_;
  ProgramMemory memory_;  // the child's memory
  bool known_ = false;    // the first child's hello has come
  std::shared_ptr<const TableRows> rows_;
  RowsInUse in_use_;  // rows of the batch being computed
  std::function<void(size_t)> there_;
  std::deque<int64_t> losses_ms_;  // the first loss at each batch, of the last minute
  Losses losses_;                  // losses since the last TakeLosses
};

}  // namespace paracord
