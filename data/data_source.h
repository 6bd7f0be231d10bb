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

// float32 represents every whole number below this one, and only some of the larger ones.
constexpr int64_t kExactBelow = int64_t{1} << 24;

// A whole number in a column whose absolute value is kExactBelow or more.
struct ExactInteger {
  size_t element = 0;  // of the column's values
  int64_t value = 0;   // an unsigned number beyond int64 has the same 64 bits, and is negative here
  bool operator==(const ExactInteger&) const = default;
};

// Some examples' values of one input or target, row-major. It has the input's or output's name (""
// if the model has just one).
struct Column {
  std::string name;
  std::vector<uint64_t> shape;  // of one example, without the batch
  std::vector<float> values;    // examples x shape
  // If true, the column holds strings instead of values: the input of a preprocessing layer. An
  // input of whole numbers may also come as strings of decimal digits.
  bool text = false;
  std::vector<std::string> strings = {};  // examples x shape
  // The large whole numbers among the values, by element, if the reader knows all their digits: an
  // id must reach the layer that looks it up unchanged. A large value that is not listed here was a
  // float in the file.
  std::vector<ExactInteger> exact = {};
};

// Lists `value` among a column's exact numbers if float32 may not represent it. Callers give
// elements in ascending order.
inline void KeepExact(size_t element, int64_t value, std::vector<ExactInteger>& exact) {
  if (value >= kExactBelow || value <= -kExactBelow) exact.push_back({element, value});
}

// Whether a float64 of a file, or one that was parsed from decimal text, is a whole number of which
// all digits are known.
inline bool IsExactInteger(double value) {
  return std::abs(value) <= 9007199254740992.0 && value == std::trunc(value);
}

// Converts a column of numbers to whole numbers, truncated towards zero; `exact` replaces the
// values that it lists. Returns the first element that has no certain whole number, because it is
// large and not in `exact`, or not finite; nullopt if all have one.
std::optional<size_t> WholeNumbers(const Column& column, std::vector<int64_t>& out);

// Returns the first of the column's large whole numbers that is beyond int64, whose value here is
// negative; null if there is none.
const ExactInteger* FirstBeyondInt64(const Column& column);

// Returns the digits of a whole number of a column as the file has them: those of an unsigned
// number beyond int64, too.
std::string DigitsOf(const Column& column, size_t element, int64_t whole);
// Says of an id that WholeNumbers does not know why it is none, such as "id 1e+20 is ...".
std::string WhyNoId(float value);

class DataSource;

struct Batch {
  uint32_t examples = 0;
  std::vector<Column> inputs;
  std::vector<Column> targets;
  // The weights of the examples, by output ("" is for all outputs); all examples count alike if
  // there are none. A weight has shape (), or one number for each step of the output.
  std::vector<Column> weights;
  // The examples' source and records, for errors that must name file and record. The source is null
  // if the batch was made by hand.
  const DataSource* source = nullptr;
  std::vector<uint64_t> records;
  // Of records that a source left out because they cannot be read (`bad_records`): what is wrong,
  // with file and record; the first few.
  std::vector<std::string> left_out = {};
};

// Says where an example of a batch comes from: "train.csv row 17", or "example 3 of the batch".
std::string Where(const Batch& batch, size_t example);
// Names the first input, target or weight that is not finite, and its example; "" if all are
// finite.
std::string FirstNotFinite(const Batch& batch);

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual uint64_t records() const = 0;
  // A text that must be the same on every worker: the order, sizes and record counts of the files.
  virtual std::string fingerprint() const = 0;
  // The names and shapes of all columns, as a batch of 0 examples.
  virtual const Batch& schema() const = 0;
  // Fills `batch`, whose memory is reused, with these records in this order. An error names file
  // and record. Any thread.
  virtual absl::Status Read(std::span<const uint64_t> records, Batch& batch) const = 0;
  // Reads like Read, and applies the random crops and flips that a job may ask for in training: a
  // pure function of `epoch_key` and each record.
  virtual absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t /*epoch_key*/,
                                       Batch& batch) const {
    return Read(records, batch);
  }
  // Names the file and row of a record ("train.csv row 17"), for an error that is found after
  // reading. A record that several files contribute to has one for each.
  virtual std::string Where(uint64_t record) const = 0;
  // Returns the text of each of `names` in each record, record after record, as the file has it: a
  // column of a CSV, a feature of an Example, the `path` of a picture. INVALID_ARGUMENT names one
  // that there is not; without records the names alone are looked at. Any thread.
  virtual absl::StatusOr<std::vector<std::string>> Fields(std::span<const uint64_t> records,
                                                          std::span<const std::string> names) const;
  // Further facts for people ("vocabulary of 67"); may be empty.
  virtual std::string Describe() const { return ""; }
  // Lines that warn of what is no error but surely unexpected: files that are left out, or values
  // that no vocabulary has.
  virtual std::vector<std::string> Warnings() const { return {}; }
};

// Returns how many records of this schema to look at together: at least one, and fewer where they
// are large.
size_t CheckedAtOnce(const Batch& schema);

// Calls `look` with the first 1000 records (fewer where they are large), some at a time, until it
// returns an error.
absl::Status ReadFirstRecords(const DataSource& source,
                              const std::function<absl::Status(const Batch&)>& look);

// Returns INVALID_ARGUMENT naming file and record if one of the first 1000 records (fewer where
// they are large) has a number that is not finite. Workers do not call it: they compute, and reject
// the batch as the job's `failures` say. CSV's readers refuse such a text themselves.
absl::Status CheckFirstValues(const DataSource& source);

// Opens and checks the files. An error names file and row, or the key of the job.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec);

}  // namespace paracord
