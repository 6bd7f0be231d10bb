// A gradient program of StableHLO (program_file.h), computed by a PJRT plug-in, with a module for
// each batch size. A CPU plug-in may read values in place; gradients are copied to the caller. Make
// and MakeOnEach run each module once, on zeros, so that they and not ComputeGradients return what
// is wrong with the file or the plug-in. A later error of the plug-in is DATA_LOSS, a lost device,
// unless the plug-in returns INVALID_ARGUMENT or RESOURCE_EXHAUSTED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "program/compiled_form.h"
#include "program/gradient_program.h"
#include "program/pjrt_batch.h"
#include "program/pjrt_client.h"
#include "program/pjrt_replicas.h"
#include "program/program_file.h"
#include "program/program_tables.h"

namespace paracord {

class PjrtProgram : public GradientProgram {
 public:
  // Compiles the modules of the job's program for data of this schema, or loads their forms from
  // `compiled`. INVALID_ARGUMENT: job, file, data, device and plug-in do not fit together.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Make(const Job& job, const Batch& schema,
                                                           const PjrtUse& use,
                                                           const CompiledPlace& compiled = {});
  // Makes a program for each device that `use` names. The programs share a client and the modules,
  // which are compiled once. The first program also runs the file's steps for several replicas, by
  // ComputeSum. Errors are those of Make, PjrtReplicas::CheckJob and PjrtReplicas::Make.
  static absl::StatusOr<std::vector<std::unique_ptr<PjrtProgram>>> MakeOnEach(
      const Job& job, const Batch& schema, const PjrtUse& use, const CompiledPlace& compiled = {});
  // Makes the checks of MakeOnEach that need no plug-in. The returned program cannot compute.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Check(const Job& job, const Batch& schema,
                                                            uint64_t memory_max);

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // Empty, because Evaluate is not implemented: the caller scores the predictions.
  const std::vector<std::string>& metric_names() const override { return no_metrics_; }
  const std::vector<ProgramOutput>& outputs() const { return file_.outputs; }
  std::vector<uint32_t> BatchSizes() const override { return SizesOf(/*step=*/true); }
  bool host_memory() const override { return client_ == nullptr || client_->platform() == "cpu"; }
  std::string device() const;  // for people
  // Returns how many modules were loaded in their compiled form.
  size_t modules_kept() const { return modules_kept_; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  size_t replicas() const override { return together_ == nullptr ? 0 : ReplicasOf(file_); }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> batches,
                                                 ConstTensors values, MutableTensors sum) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override;
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override;
  void UseRows(std::shared_ptr<const TableRows> rows) override { rows_ = std::move(rows); }
  std::string Summary() const override;
  std::string Memory() const override;

 private:
  PjrtProgram(std::shared_ptr<const ProgramFile> file, const Batch& schema)
      : shared_file_(std::move(file)), file_(*shared_file_), schema_(schema) {}
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Read(const Job& job, const Batch& schema,
                                                           uint64_t memory_max);
  absl::Status Open(const PjrtUse& use);
  absl::StatusOr<std::unique_ptr<PjrtProgram>> OnOther(const Job& job, size_t place) const;
  absl::Status CheckSizes(uint64_t memory_max) const;
  absl::Status MakeTables(const Job& job);
  absl::Status Compile(const CompiledPlace& place);
  absl::Status CompileOne(const ProgramModule& module, const CompiledPlace& place);
  // Loads the compiled form in `kept` and runs it once; false: there is none, or it does not work.
  bool TakeKept(const KeptBytes& kept, CompiledModule& compiled) const;
  absl::Status CheckResults(const CompiledModule& compiled) const;
  absl::Status Try(const CompiledModule& compiled) const;
  PjrtArray ArrayOf(const ModuleArgument& argument, uint32_t batch) const;
  PjrtArray ArrayOf(const ProgramModule& module, const ModuleResult& result) const;
  std::vector<uint32_t> SizesOf(bool step) const;

  // Returns the step for `replicas` batches of `examples` examples. INVALID_ARGUMENT: none exists.
  absl::StatusOr<const CompiledModule*> StepOf(uint32_t examples, size_t replicas) const;
  // Checks and converts the batch's columns (PjrtBatch), and finds the table rows that it reads.
  absl::Status Take(const Batch& batch);
  absl::Status PredictSome(const CompiledModule& compiled, ConstTensors values, uint32_t first,
                           uint32_t count, std::vector<Column>& columns);

  const std::shared_ptr<const ProgramFile> shared_file_;
  const ProgramFile& file_;
  const Batch schema_;
  const std::vector<std::string> no_metrics_;
  std::shared_ptr<PjrtClient> client_;  // shared by the programs of MakeOnEach
  size_t place_ = 0;                    // index of this program's device in the client
  // The file's modules, in order; shared by the programs of MakeOnEach. Modules for several
  // replicas are compiled only if the first program has together_.
  std::shared_ptr<std::vector<CompiledModule>> compiled_ =
      std::make_shared<std::vector<CompiledModule>>();
  bool keeps_ = false;  // compiled forms are saved for later processes
  size_t modules_kept_ = 0;
  std::vector<VariableSpec> variables_;  // in the form stored by the ps
  ProgramTables tables_;
  PjrtBatch batch_;                         // the batch being computed
  std::shared_ptr<const TableRows> rows_;   // the rows of the last UseRows; null: all rows
  std::unique_ptr<PjrtReplicas> together_;  // null: this program runs no module for replicas
  std::function<void(size_t)> there_;
};

}  // namespace paracord
