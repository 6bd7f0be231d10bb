// Writes a model's outputs for many records, in their order: as CSV, as a JSON object a line, or as
// arrays of NumPy. What is written is buffered, 1 MiB at most. Used in one thread.
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

// Of an output with more numbers a CSV is no table any more.
inline constexpr uint64_t kCsvNumbersMax = 4096;

// What all records have alike.
struct PredictionTable {
  std::vector<std::string> copied;  // the names of the columns that are copied
  std::vector<Column> outputs;      // names and shapes, of one record; "" is called "prediction"
  uint64_t records = 0;
  bool at_once = false;  // text is passed on with each batch, for whoever reads it as it comes
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  // Writes the next `records` records. `copied` has the text of each column, record after record;
  // an output may have more records, which are left out.
  virtual absl::Status Add(std::span<const std::string> copied, std::span<const Column> outputs,
                           size_t records) = 0;
  // Writes what is buffered, and syncs.
  virtual absl::Status End() = 0;
};

// The name of an output's file, column or key.
std::string PredictionName(const Column& output);

// Opens a file of an array's name; "" where the format has one file.
using OpenPredictionFn =
    std::function<absl::StatusOr<std::unique_ptr<WriteFile>>(const std::string& name)>;
// INVALID_ARGUMENT says what the format cannot hold, and which one can.
absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(
    PredictionFormat format, const PredictionTable& table, const OpenPredictionFn& open);

}  // namespace paracord
