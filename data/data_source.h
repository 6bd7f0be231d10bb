// The examples of one data set, addressed by record. A reader for a format implements this and has
// one entry in the table of formats (data_source.cc). Thread-safe after opening: batches are
// prepared on a thread of their own.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"

namespace paracord {

// float32 tells all whole numbers below this one apart, and of larger ones only some.
constexpr int64_t kExactBelow = int64_t{1} << 24;

// A whole number of a column whose size is kExactBelow or more.
struct ExactInteger {
  size_t element = 0;  // of the column's values
  int64_t value = 0;
  bool operator==(const ExactInteger&) const = default;
};

// Some examples, row-major. Inputs and targets by name ("" when there is just one).
struct Column {
  std::string name;
  std::vector<uint64_t> shape;  // of one example, without the batch
  std::vector<float> values;    // examples x shape
  // True: strings, not values, for inputs of preprocessing layers. An input of whole numbers may be
  // given so too, as decimal text.
  bool text = false;
  std::vector<std::string> strings = {};  // examples x shape
  // The large whole numbers among the values, by element, where the reader knows them to the last
  // digit: ids go from a file to the layer that looks them up without becoming other ids. A large
  // value that is not listed here was never exact (a float32 of the file).
  std::vector<ExactInteger> exact = {};
};

// Lists `value` among the exact ones of a column if float32 may lack it. Elements are given in
// ascending order.
inline void KeepExact(size_t element, int64_t value, std::vector<ExactInteger>& exact) {
  if (value >= kExactBelow || value <= -kExactBelow) exact.push_back({element, value});
}

// Whether a number of a file that has it as float64, or as decimal text read as such, is whole and
// known to the last digit.
inline bool IsExactInteger(double value) {
  return std::abs(value) <= 9007199254740992.0 && value == std::trunc(value);
}

// The values of a column of numbers as whole numbers, cut off towards zero, and exact where
// `exact` has them. The element of the first value that cannot be told, because it is large and no
// exact number, or is not finite; nothing if all can.
std::optional<size_t> WholeNumbers(const Column& column, std::vector<int64_t>& out);

class DataSource;

struct Batch {
  uint32_t examples = 0;
  std::vector<Column> inputs;
  std::vector<Column> targets;
  // Of examples, by output ("": of all outputs); none: all count alike. Shape (), or a number a
  // step of the output.
  std::vector<Column> weights;
  // Where the examples come from, for errors that must name file and record. Null: made by hand.
  const DataSource* source = nullptr;
  std::vector<uint64_t> records;
};

// "train.csv row 17", or "example 3 of the batch": where an example of a batch comes from.
std::string Where(const Batch& batch, size_t example);
// Which input, target or weight of which example is not finite; "" if all are.
std::string FirstNotFinite(const Batch& batch);

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual uint64_t records() const = 0;
  // Order, sizes and record counts of the files: what must be the same on every worker.
  virtual std::string fingerprint() const = 0;
  // Shapes and names, with examples = 0 and no values.
  virtual const Batch& schema() const = 0;
  // Fills `batch` (its storage is reused) with these records in this order. An error names file
  // and record.
  virtual absl::Status Read(std::span<const uint64_t> records, Batch& batch) const = 0;
  // The same for training, where the job may ask for random crops and the like: a pure function of
  // `epoch_key` and each record.
  virtual absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t /*epoch_key*/,
                                       Batch& batch) const {
    return Read(records, batch);
  }
  // "train.csv row 17", of each file that has a share in it: for errors found later.
  virtual std::string Where(uint64_t record) const = 0;
  // What people want to know besides ("vocabulary of 67"); may be empty.
  virtual std::string Describe() const { return ""; }
  // What is no error and still surely not what people expect, a line each: files that are left out,
  // values that no vocabulary knows.
  virtual std::vector<std::string> Warnings() const { return {}; }
};

// How many records of this schema to look at together: fewer where they are large, at least one.
size_t CheckedAtOnce(const Batch& schema);

// Calls `look` with the first 1000 records (fewer where they are large), some at a time, until it
// gives an error.
absl::Status ReadFirstRecords(const DataSource& source,
                              const std::function<absl::Status(const Batch&)>& look);

// INVALID_ARGUMENT naming file and record if one of the first 1000 records (fewer where they are
// large) has a number that is not finite. A worker does not ask: it computes, and rejects the batch
// as the job's `failures` say. CSV's readers refuse such a text themselves.
absl::Status CheckFirstValues(const DataSource& source);

// Opens and checks the files; an error names file and row, or the key of the job.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec);

}  // namespace paracord
