// Converts a batch to the arguments of StableHLO modules: columns in the modules' types, and the
// table rows read by the batch, padded to the module's capacity (ModuleArgument.rows). Used by one
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/aligned_memory.h"
#include "data/data_source.h"
#include "program/gradient_program.h"
#include "program/pjrt_client.h"
#include "program/program_file.h"
#include "program/program_tables.h"

namespace paracord {

// A module of a program file, and its compiled form.
struct CompiledModule {
  const ProgramModule* module = nullptr;
  std::vector<PjrtArray> arguments;
  PjrtClient::Loaded loaded;
};

class PjrtBatch {
 public:
  // INVALID_ARGUMENT unless the data have all columns of the file's modules; with `inputs_alone`,
  // all columns of a prediction. All arguments outlive this object.
  absl::Status Match(const ProgramFile& file, const Batch& schema, const ProgramTables& tables,
                     bool inputs_alone);

  // INVALID_ARGUMENT unless the batch has the matched columns of the data, in their shapes. Call
  // before any other function of the batch.
  absl::Status Check(const Batch& batch) const;
  // Takes the columns of a checked batch in the modules' types; `use` has the ids' local numbers.
  absl::Status Take(const Batch& batch, const RowsInUse& use);
  // Sets the batch's key (GradientProgram::ComputeGradients).
  void SetKey(uint64_t key);

  // INVALID_ARGUMENT if the batch reads more rows of a table than a module has room for.
  absl::Status CheckRows(const ProgramModule& module) const;
  // Returns the arguments of a run over `count` of the batch's examples, from `first` on, padded to
  // the module's batch size. They view `values` and this object.
  std::vector<PjrtClient::Argument> Arguments(const CompiledModule& compiled, ConstTensors values,
                                              uint32_t first, uint32_t count);
  // Returns where a run leaves the gradient of `rows` rows.
  float* GradientPlace(size_t variable, uint64_t rows);
  // Copies the gradient of the batch's rows from the run's output to `to`.
  void TakeGradient(size_t variable, std::span<float> to) const;

 private:
  // A column of the modules, and its index in the data.
  struct Given {
    const char* what = "";  // "input"
    const ProgramColumn* column = nullptr;
    size_t index = 0;   // index in the data's inputs, targets or weights
    uint64_t each = 1;  // elements of an example
    // State of the batch being computed.
    const Column* from = nullptr;
    std::vector<int64_t> whole;
    std::vector<int32_t> narrow;
    AlignedVector<char> placed;
  };

  absl::Status MatchOne(const char* what, const std::vector<ProgramColumn>& wanted,
                        const std::vector<Column>& have, std::vector<Given>& given);
  absl::Status CheckIds() const;
  static absl::Status Narrow(const std::string& name, Given& given);
  static const void* Rows(Given& given, uint32_t first, uint32_t count, uint32_t size);
  // Returns the column of an argument, from the example `first` on, padded to the module's batch
  // size. Aligned to a cache line; a plug-in copies unaligned arrays in each run.
  const void* Examples(const ModuleArgument& argument, uint32_t first, uint32_t count,
                       uint32_t size);
  // Returns the rows of a table read by the batch, padded to `rows`.
  const float* Values(size_t variable, uint64_t rows, std::span<const float> values);

  const ProgramFile* file_ = nullptr;
  const Batch* schema_ = nullptr;
  const ProgramTables* tables_ = nullptr;
  RowsInUse use_;
  std::vector<Given> inputs_, targets_, weights_;
  std::vector<AlignedVector<float>> values_, gradients_;  // indexed by variable; for tables
  alignas(kArrayAlignment) uint32_t key_[2] = {};
};

}  // namespace paracord
