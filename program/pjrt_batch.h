// Converts a batch to the arguments of StableHLO modules: columns with the modules' types, and the
// table rows that the batch reads, padded with zeros to ModuleArgument.rows. Used by one thread.
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

// A module of a program file, compiled.
struct CompiledModule {
  const ProgramModule* module = nullptr;
  std::vector<PjrtArray> arguments;  // the types and shapes of the module's arguments, in order
  PjrtClient::Loaded loaded;
};

class PjrtBatch {
 public:
  // Finds the columns that the file's modules take in the data's `schema`; with `inputs_alone` only
  // the inputs. INVALID_ARGUMENT if names, shapes or types do not match. Called first, and once;
  // `file`, `schema` and `tables` must outlive this object.
  absl::Status Match(const ProgramFile& file, const Batch& schema, const ProgramTables& tables,
                     bool inputs_alone);

  // INVALID_ARGUMENT unless the batch has examples, and columns as in the schema.
  absl::Status Check(const Batch& batch) const;
  // Converts the columns of a checked batch to the types that the modules take, and the ids of
  // tables to their local numbers in `use`. INVALID_ARGUMENT if a value does not fit its type. The
  // functions below use the batch of the last Take, which must live until then.
  absl::Status Take(const Batch& batch, const RowsInUse& use);
  // Sets the batch's key (GradientProgram::ComputeGradients).
  void SetKey(uint64_t key);

  // INVALID_ARGUMENT if the batch reads more rows of a table than the module takes.
  absl::Status CheckRows(const ProgramModule& module) const;
  // Returns the module's arguments for `count` of the batch's examples, from `first` on, padded to
  // the module's batch size. The result points into the parameters, the batch and this object.
  std::vector<PjrtClient::Argument> Arguments(const CompiledModule& compiled, ConstTensors values,
                                              uint32_t first, uint32_t count);
  // Returns memory to which a module can write the gradient of `rows` rows of a table.
  float* GradientPlace(size_t variable, uint64_t rows);
  // Copies the gradient of the rows that the batch reads from the memory of GradientPlace to `to`.
  void TakeGradient(size_t variable, std::span<float> to) const;

 private:
  // A column of the modules, and its index in the data.
  struct Given {
    const char* what = "";  // "input", "target" or "weight"
    const ProgramColumn* column = nullptr;
    size_t index = 0;   // index in the data's inputs, targets or weights
    uint64_t each = 1;  // elements of an example
    // The column in the batch of the last Take, its values as int64 and int32, and a padded copy.
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
  // Returns `count` examples, from `first` on, of an argument's column, padded to `size` examples.
  // The memory is aligned to a cache line, because a plug-in copies unaligned arrays in each run.
  const void* Examples(const ModuleArgument& argument, uint32_t first, uint32_t count,
                       uint32_t size);
  const float* Values(size_t variable, uint64_t rows, std::span<const float> values);

  const ProgramFile* file_ = nullptr;
  const Batch* schema_ = nullptr;
  const ProgramTables* tables_ = nullptr;
  RowsInUse use_;
  std::vector<Given> inputs_, targets_, weights_;
  std::vector<AlignedVector<float>> values_, gradients_;  // index: variable; used for tables alone
  alignas(kArrayAlignment) uint32_t key_[2] = {};
};

}  // namespace paracord
