// A gradient program of StableHLO (program_file.h), computed by a PJRT plug-in, with a module for
// each batch size. A CPU plug-in may read values in place; gradients are copied to the caller.
// Errors of the file, the plug-in or their match are found at construction, by running the modules
// once, on zeros. A later failure of the plug-in counts as a lost device, unless the plug-in says
// INVALID_ARGUMENT or RESOURCE_EXHAUSTED.
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
  // Compiles the program of the job's model for data of this schema, or loads the forms kept in
  // `compiled`. INVALID_ARGUMENT: the job, its file, the data and the device do not fit together.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Make(const Job& job, const Batch& schema,
                                                           const PjrtUse& use,
                                                           const CompiledPlace& compiled = {});
  // Makes a program on each device that `use` names. The programs share a client and the modules,
  // which are compiled once. The first program also runs the file's steps for several replicas:
  // INVALID_ARGUMENT if PjrtReplicas::CheckJob or PjrtReplicas::Make refuses these steps.
  static absl::StatusOr<std::vector<std::unique_ptr<PjrtProgram>>> MakeOnEach(
      const Job& job, const Batch& schema, const PjrtUse& use, const CompiledPlace& compiled = {});
  // Makes the checks of Make and MakeOnEach that need no plug-in. The returned program cannot
  // compute. `memory_max`: bytes, as in PjrtUse.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Check(const Job& job, const Batch& schema,
                                                            uint64_t memory_max);

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // Empty: loss and metrics of the job are computed from the predictions.
  const std::vector<std::string>& metric_names() const override { return no_metrics_; }
  const std::vector<ProgramOutput>& outputs() const { return file_.outputs; }
  std::vector<uint32_t> BatchSizes() const override { return SizesOf(/*step=*/true); }
  bool host_memory() const override { return client_ == nullptr || client_->platform() == "cpu"; }
  std::string device() const;                            // for people
  size_t modules_kept() const { return modules_kept_; }  // modules that were loaded, not compiled

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
  // Loads and tries the kept compiled form; false: there is none, or the form does not work.
  bool TakeKept(const KeptBytes& kept, CompiledModule& compiled) const;
  absl::Status CheckResults(const CompiledModule& compiled) const;
  absl::Status Try(const CompiledModule& compiled) const;
  PjrtArray ArrayOf(const ModuleArgument& argument, uint32_t batch) const;
  PjrtArray ArrayOf(const ProgramModule& module, const ModuleResult& result) const;
  std::vector<uint32_t> SizesOf(bool step) const;

  // Returns the step for `replicas` batches of `examples` each. INVALID_ARGUMENT: there is none.
  absl::StatusOr<const CompiledModule*> StepOf(uint32_t examples, size_t replicas) const;
  // Takes the batch's columns, and finds the table rows read by the batch.
  absl::Status Take(const Batch& batch);
  absl::Status PredictSome(const CompiledModule& compiled, ConstTensors values, uint32_t first,
                           uint32_t count, std::vector<Column>& columns);

  const std::shared_ptr<const ProgramFile> shared_file_;
  const ProgramFile& file_;
  const Batch schema_;
  const std::vector<std::string> no_metrics_;
  std::shared_ptr<PjrtClient> client_;  // shared by the programs of MakeOnEach
  size_t place_ = 0;                    // index of this program's device in the client
  // The file's modules, in order; shared by the programs of MakeOnEach. If the first program's
  // together_ is null, modules for several replicas are not compiled.
  std::shared_ptr<std::vector<CompiledModule>> compiled_ =
      std::make_shared<std::vector<CompiledModule>>();
  bool keeps_ = false;  // compiled forms are kept for the next start
  size_t modules_kept_ = 0;
  std::vector<VariableSpec> variables_;  // in the form stored by the ps
  ProgramTables tables_;
  PjrtBatch batch_;                         // the batch being computed
  std::shared_ptr<const TableRows> rows_;   // the table rows that values hold; null: all rows
  std::unique_ptr<PjrtReplicas> together_;  // null: this program runs no module for replicas
  std::function<void(size_t)> there_;
};

}  // namespace paracord
