// Makes of a batch what modules of StableHLO take: its columns in their types, and the rows of
// tables that it reads, padded to as many as a module has room for (ModuleArgument.rows). It is
// used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/aligned_memory.h"
#include "data/data_source.h"
#include "program/program_file.h"
#include "program/program_tables.h"

namespace paracord {

class PjrtBatch {
 public:
  // INVALID_ARGUMENT unless the data have the columns that the file's modules take; with
  // `inputs_alone` those that a prediction takes. All that is given lives longer.
  absl::Status Match(const ProgramFile& file, const Batch& schema, const ProgramTables& tables,
                     bool inputs_alone);

  // INVALID_ARGUMENT unless a batch has the columns of the data that were matched, in their shapes.
  // It comes before anything else reads the batch by its columns.
  absl::Status Check(const Batch& batch) const;
  // Takes the columns of a batch that was checked in the modules' types; `use` has the numbers of
  // ids.
  absl::Status Take(const Batch& batch, const RowsInUse& use);

  // Returns the column of an argument, from the example `first` on, padded to the size of a module.
  // A plug-in would copy those that begin elsewhere than at a cache line to new memory in each run.
  const void* Examples(const ModuleArgument& argument, uint32_t first, uint32_t count,
                       uint32_t size);

  // INVALID_ARGUMENT if the batch reads more rows of a table than a module has room for.
  absl::Status CheckRows(const ProgramModule& module) const;
  // Returns the rows of a table that the batch reads, padded to `rows`.
  const float* Values(size_t variable, uint64_t rows, std::span<const float> values);
  // Returns where a run leaves the gradient of `rows` rows.
  float* GradientPlace(size_t variable, uint64_t rows);
  // Copies the gradient of the rows that the batch reads from that place to `to`.
  void TakeGradient(size_t variable, std::span<float> to) const;

 private:
  // A column that the modules take, and which of the data's it is.
  struct Given {
    const char* what = "";  // "input"
    const ProgramColumn* column = nullptr;
    size_t index = 0;   // of the data's inputs, targets or weights
    uint64_t each = 1;  // elements of an example
    // The following members belong to the batch that is computed.
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

  const ProgramFile* file_ = nullptr;
  const Batch* schema_ = nullptr;
  const ProgramTables* tables_ = nullptr;
  RowsInUse use_;
  std::vector<Given> inputs_, targets_, weights_;
  std::vector<AlignedVector<float>> values_, gradients_;  // of tables, by variable
};

}  // namespace paracord
