// Writes a model's outputs for many records, in the order of the records: as CSV, as one JSON
// object a line, or as NumPy arrays. Buffers about 1 MiB for each file. Used in one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/data_source.h"

namespace paracord {

enum class PredictionFormat { kCsv, kJsonl, kNpy };

// The most numbers of an output in a CSV file, which has a column for each.
inline constexpr uint64_t kCsvNumbersMax = 4096;

// The columns of the predictions, which are the same for all records.
struct PredictionTable {
  std::vector<std::string> copied;  // names of the columns that are copied from the data
  std::vector<Column> outputs;      // names, and shapes for one record; values are not used
  // The number of all records; only NumPy arrays need it.
  uint64_t records = 0;
  // Each Add writes its records at once (not to NumPy arrays), for programs that follow the file.
  bool at_once = false;
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  // Writes the next `records` records. `copied` has the texts of the copied columns, record after
  // record. If an output has more than `records` records, the further ones are not written.
  virtual absl::Status Add(std::span<const std::string> copied, std::span<const Column> outputs,
                           size_t records) = 0;
  // Writes what is still buffered, and syncs the files.
  virtual absl::Status End() = 0;
};

// Returns the name of an output in files, columns and keys; "prediction" if it has no name.
std::string PredictionName(const Column& output);

// Opens the file for the output `name`; `name` is "" if all outputs are in one file.
using OpenPredictionFn =
    std::function<absl::StatusOr<std::unique_ptr<WriteFile>>(const std::string& name)>;
// INVALID_ARGUMENT names what the format cannot hold, and a format that can.
absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(
    PredictionFormat format, const PredictionTable& table, const OpenPredictionFn& open);

}  // namespace paracord
