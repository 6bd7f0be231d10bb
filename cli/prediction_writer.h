// Writes a model's outputs for many records, in order: as CSV, one JSON object a line, or NumPy
// arrays. Buffers at most 1 MiB. Used in one thread.
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

// The most numbers of an output in a CSV file.
inline constexpr uint64_t kCsvNumbersMax = 4096;

// The columns that all records share.
struct PredictionTable {
  std::vector<std::string> copied;  // names of the copied columns
  std::vector<Column> outputs;      // names and shapes for one record; "" is called "prediction"
  uint64_t records = 0;
  bool at_once = false;  // text is flushed with each batch, for readers that follow
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  // Writes the next `records` records. `copied` has the text of each column, record after record;
  // an output may have more records, which are left out.
  virtual absl::Status Add(std::span<const std::string> copied, std::span<const Column> outputs,
                           size_t records) = 0;
  // Writes the buffer, and syncs.
  virtual absl::Status End() = 0;
};

// The name of an output's file, column or key.
std::string PredictionName(const Column& output);

// Opens the file for the named array; "" if the format has one file.
using OpenPredictionFn =
    std::function<absl::StatusOr<std::unique_ptr<WriteFile>>(const std::string& name)>;
// INVALID_ARGUMENT names what the format cannot hold, and a format that can.
absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(
    PredictionFormat format, const PredictionTable& table, const OpenPredictionFn& open);

}  // namespace paracord
