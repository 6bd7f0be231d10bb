// A gradient program of StableHLO (program_file.h), computed by a PJRT plug-in, with a module for
// each batch size. Values are read and gradients written in place where the plug-in allows. Errors
// of the file, the plug-in or their match are found at construction, by running each module once,
// on zeros; later failures of the plug-in count as a lost device.
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
#include "common/aligned_memory.h"
#include "config/job.h"
#include "program/compiled_form.h"
#include "program/gradient_program.h"
#include "program/pjrt_batch.h"
#include "program/pjrt_client.h"
#include "program/program_file.h"
#include "program/program_tables.h"

namespace paracord {

class PjrtProgram : public GradientProgram {
 public:
  // Compiles the program of the job's model for data of this schema, or loads kept compiled forms.
  // INVALID_ARGUMENT has one line for each problem.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Make(const Job& job, const Batch& schema,
                                                           const PjrtUse& use,
                                                           const CompiledPlace& compiled = {});
  // Makes a program on each of several devices of the plug-in. The programs share a client and the
  // modules, compiled once in a portable form.
  static absl::StatusOr<std::vector<std::unique_ptr<PjrtProgram>>> MakeOnEach(
      const Job& job, const Batch& schema, const PjrtUse& use, const CompiledPlace& compiled = {});
  // Checks the file and the data without a plug-in. The returned program computes nothing.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Check(const Job& job, const Batch& schema,
                                                            uint64_t memory_max);

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  // Empty: the job's metrics are computed from the predictions.
  const std::vector<std::string>& metric_names() const override { return no_metrics_; }
  const std::vector<ProgramOutput>& outputs() const { return file_.outputs; }
  std::vector<uint32_t> BatchSizes() const override { return SizesOf(/*step=*/true); }
  bool host_memory() const override { return client_ == nullptr || client_->platform() == "cpu"; }
  std::string device() const;                            // for people
  size_t modules_kept() const { return modules_kept_; }  // how many were compiled before

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override;
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override;
  void UseRows(std::shared_ptr<const TableRows> rows) override { rows_ = std::move(rows); }
  std::string Summary() const override;
  std::string Memory() const override;

 private:
  struct Compiled {
    const ProgramModule* module = nullptr;
    std::vector<PjrtArray> arguments;
    PjrtClient::Loaded loaded;
  };
  PjrtProgram(std::shared_ptr<const ProgramFile> file, const Batch& schema)
      : shared_file_(std::move(file)), file_(*shared_file_), schema_(schema) {}
  absl::StatusOr<std::unique_ptr<PjrtProgram>> OnOther(const Job& job, size_t place) const;
  absl::Status CheckSizes(uint64_t memory_max) const;
  absl::Status MakeTables(const Job& job);
  absl::Status Compile(const CompiledPlace& place);
  absl::Status CompileOne(const ProgramModule& module, const CompiledPlace& place);
  // Whether the kept compiled form is sound.
  bool TakeKept(const KeptBytes& kept, Compiled& compiled) const;
  absl::Status CheckResults(const Compiled& compiled) const;
  absl::Status Try(const Compiled& compiled) const;
  PjrtArray ArrayOf(const ModuleArgument& argument, uint32_t batch) const;
  PjrtArray ArrayOf(const ProgramModule& module, const ModuleResult& result) const;
  std::vector<uint32_t> SizesOf(bool step) const;

  // Takes the batch's columns, and finds the table rows read by the batch.
  absl::Status Take(const Batch& batch);
  // The arguments of a run over some of the batch's examples.
  std::vector<PjrtClient::Argument> Arguments(const Compiled& compiled, ConstTensors values,
                                              uint32_t first, uint32_t count);
  absl::Status PredictSome(const Compiled& compiled, ConstTensors values, uint32_t first,
                           uint32_t count, std::vector<Column>& columns);

  const std::shared_ptr<const ProgramFile> shared_file_;
  const ProgramFile& file_;
  const Batch schema_;
  const std::vector<std::string> no_metrics_;
  std::shared_ptr<PjrtClient> client_;  // shared with programs on other devices
  size_t place_ = 0;                    // index of the device in the client
  // The file's modules, in order; shared likewise.
  std::shared_ptr<std::vector<Compiled>> compiled_ = std::make_shared<std::vector<Compiled>>();
  bool keeps_ = false;  // keeps compiled forms for the next start
  size_t modules_kept_ = 0;
  std::vector<VariableSpec> variables_;  // in the form stored by the ps
  ProgramTables tables_;
  PjrtBatch batch_;                                // the batch being computed
  std::shared_ptr<const TableRows> rows_;          // table rows held by the values; null: all
  alignas(kArrayAlignment) uint32_t key_[2] = {};  // dropout key of the batch
  std::function<void(size_t)> there_;
};

}  // namespace paracord
