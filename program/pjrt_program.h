// A gradient program of StableHLO (program_file.h), which a PJRT plug-in computes. Each size of
// batch has a module of its own. Values are read and gradients written in place where the plug-in
// can. What is wrong with the file, the plug-in or their match is found as it is made, for which
// each module is run once, on zeros; a plug-in that fails later is lost as a device is.
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
#include "program/pjrt_client.h"
#include "program/program_file.h"

namespace paracord {

class PjrtProgram : public GradientProgram {
 public:
  // Compiles the program of the job's model for data of this schema, or takes what was compiled
  // before. INVALID_ARGUMENT has one line for each problem.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Make(const Job& job, const Batch& schema,
                                                           const PjrtUse& use,
                                                           const CompiledPlace& compiled = {});
  // The same without a plug-in, for what can be said of the file and the data alone. It computes
  // nothing.
  static absl::StatusOr<std::unique_ptr<PjrtProgram>> Check(const Job& job, const Batch& schema,
                                                            uint64_t memory_max);

  const std::vector<VariableSpec>& variables() const override { return file_.variables; }
  // It evaluates none itself: the job's are measured of what it predicts.
  const std::vector<std::string>& metric_names() const override { return no_metrics_; }
  const std::vector<ProgramOutput>& outputs() const { return file_.outputs; }
  std::vector<uint32_t> BatchSizes() const override { return SizesOf(/*step=*/true); }
  bool host_memory() const override { return client_ == nullptr || client_->platform() == "cpu"; }
  std::string device() const;                            // in words
  size_t modules_kept() const { return modules_kept_; }  // how many were compiled before

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override;
  std::string Summary() const override;
  std::string Memory() const override;

 private:
  struct Compiled {
    const ProgramModule* module = nullptr;
    std::vector<PjrtArray> arguments;
    PjrtClient::Loaded loaded;
  };
  // A column that the modules take, and which of the data's it is.
  struct Given {
    const char* what = "";  // "input"
    const ProgramColumn* column = nullptr;
    size_t index = 0;   // of the data's inputs, targets or weights
    uint64_t each = 1;  // elements of an example
    // Of the batch that is computed.
    const Column* from = nullptr;
    std::vector<int64_t> whole;
    std::vector<int32_t> narrow;
    // The examples of a run, where a plug-in for the processor reads them in place.
    AlignedVector<char> placed;
  };

  PjrtProgram(ProgramFile file, const Batch& schema) : file_(std::move(file)), schema_(schema) {}
  std::string ModuleText(size_t module) const;  // "modules[1], a step of 64 examples"
  absl::Status CheckSizes(uint64_t memory_max) const;
  absl::Status MatchColumns();
  absl::Status Match(const char* what, const std::vector<ProgramColumn>& wanted,
                     const std::vector<Column>& have, std::vector<Given>& given);
  absl::Status Compile(const CompiledPlace& place);
  absl::Status CompileOne(const ProgramModule& module, const CompiledPlace& place);
  // Whether the compiled form that is kept is sound.
  bool TakeKept(const KeptBytes& kept, Compiled& compiled) const;
  absl::Status CheckResults(const Compiled& compiled) const;
  absl::Status Try(const Compiled& compiled) const;
  PjrtArray ArrayOf(const ModuleArgument& argument, uint32_t batch) const;
  PjrtArray ArrayOf(const ModuleResult& result, uint32_t batch) const;
  std::vector<uint32_t> SizesOf(bool step) const;
  const Compiled* ToPredict(uint32_t examples) const;

  // Takes the batch's columns in the modules' types.
  absl::Status Take(const Batch& batch);
  static absl::Status TakeColumn(const Column& schema, const Column& column, uint32_t examples,
                                 Given& given);
  // The examples from `first` on, padded to the size of a module. A plug-in would copy those that
  // begin elsewhere than at a cache line to new memory in each run.
  static const void* Rows(Given& given, uint32_t first, uint32_t count, uint32_t size);
  // The arguments of a run over some of the batch's examples.
  std::vector<PjrtClient::Argument> Arguments(const Compiled& compiled, ConstTensors values,
                                              uint32_t first, uint32_t count);
  absl::Status PredictSome(const Compiled& compiled, ConstTensors values, uint32_t first,
                           uint32_t count, std::vector<Column>& columns);

  const ProgramFile file_;
  const Batch schema_;
  const std::vector<std::string> no_metrics_;
  std::unique_ptr<PjrtClient> client_;
  std::vector<Compiled> compiled_;
  size_t modules_kept_ = 0;
  std::vector<Given> inputs_, targets_, weights_;
  alignas(kArrayAlignment) uint32_t key_[2] = {};  // of the batch that is computed
  std::function<void(size_t)> there_;
};

}  // namespace paracord
