// The examples of a data set, addressed by record. Each format's reader implements DataSource and
// has an entry in the table of formats (data_source.cc). Thread-safe after opening: batches are
// prepared on a separate thread.
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

// float32 represents every whole number with an absolute value below this, and only some beyond.
constexpr int64_t kExactBelow = int64_t{1} << 24;

// A whole number of a column with an absolute value of at least kExactBelow.
struct ExactInteger {
  size_t element = 0;  // index in the column's values
  int64_t value = 0;   // an unsigned number beyond int64 keeps its bits, and is negative here
  bool operator==(const ExactInteger&) const = default;
};

// The values of an input, a target or a weight for some examples, row-major, with the name of the
// input or output ("" if the model has only one).
struct Column {
  std::string name;
  std::vector<uint64_t> shape;  // shape of an example, without the batch
  std::vector<float> values;    // examples x shape
  // If true, the column holds strings instead of values: the input of a preprocessing layer. An
  // input of whole numbers may also come as strings of decimal digits.
  bool text = false;
  std::vector<std::string> strings = {};  // examples x shape
  // The large whole numbers among the values, in ascending order of elements, where the reader
  // knows all digits: a lookup must get ids unchanged. The digits of other large values are not
  // certain.
  std::vector<ExactInteger> exact = {};
};

// Lists `value` among a column's exact numbers if float32 may not represent it. Callers pass
// elements in ascending order.
inline void KeepExact(size_t element, int64_t value, std::vector<ExactInteger>& exact) {
  if (value >= kExactBelow || value <= -kExactBelow) exact.push_back({element, value});
}

// Whether a float64 is a whole number with certain digits: one up to 2^53 in absolute value.
inline bool IsExactInteger(double value) {
  return std::abs(value) <= 9007199254740992.0 && value == std::trunc(value);
}

// Converts a column to whole numbers: values listed in `exact` are taken from there, all others are
// truncated towards zero. Returns the first element without a certain whole number (large and not
// in `exact`, or not finite), where the conversion stops; nullopt if all elements have one.
std::optional<size_t> WholeNumbers(const Column& column, std::vector<int64_t>& out);

// Returns the first of the column's exact numbers beyond int64, stored as a negative `value`; null
// without one.
const ExactInteger* FirstBeyondInt64(const Column& column);

// Returns the digits of a column's whole number (of WholeNumbers) as in the file, even for an
// unsigned number beyond int64.
std::string DigitsOf(const Column& column, size_t element, int64_t whole);
// Explains why an id refused by WholeNumbers is invalid, such as "id 1e+20 is ...".
std::string WhyNoId(float value);

class DataSource;

struct Batch {
  uint32_t examples = 0;
  std::vector<Column> inputs;
  std::vector<Column> targets;
  // The examples' weights: a column for each output that has some ("" is for all outputs); without
  // weights, all examples count alike. An example has one weight, or one for each step of the
  // output.
  std::vector<Column> weights;
  // The examples' source and records, for errors that must name file and record. The source is null
  // for batches made by hand.
  const DataSource* source = nullptr;
  std::vector<uint64_t> records;
  // Messages on the first few unreadable records that the source left out (`bad_records`): file,
  // record and problem.
  std::vector<std::string> left_out = {};
};

// Says where an example of a batch comes from: "train.csv row 17", or "example 3 of the batch".
std::string Where(const Batch& batch, size_t example);
// Names the first non-finite input, target or weight, and its example; "" if all are finite.
std::string FirstNotFinite(const Batch& batch);

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual uint64_t records() const = 0;
  // A text made of the order, sizes and record counts of the files, and for most formats of their
  // contents: workers with equal files have equal texts.
  virtual std::string fingerprint() const = 0;
  // The names and shapes of all columns, as a batch of 0 examples.
  virtual const Batch& schema() const = 0;
  // Fills `batch`, whose memory is reused, with the records in the order of `records`. An error
  // names file and record. Any thread.
  virtual absl::Status Read(std::span<const uint64_t> records, Batch& batch) const = 0;
  // Like Read, but applies the random crops and flips requested by a job for training: a pure
  // function of `epoch_key` (EpochKey in batch_plan.h) and each record.
  virtual absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t /*epoch_key*/,
                                       Batch& batch) const {
    return Read(records, batch);
  }
  // Names the file and row of a record ("train.csv row 17"), for an error found after reading. A
  // record made from several files has a row for each.
  virtual std::string Where(uint64_t record) const = 0;
  // Returns the text of each of `names` in each record, record after record, unconverted: a column
  // of a CSV, a feature of an Example, the `path` of a picture. INVALID_ARGUMENT names an unknown
  // name; without records only names are checked. Any thread.
  virtual absl::StatusOr<std::vector<std::string>> Fields(std::span<const uint64_t> records,
                                                          std::span<const std::string> names) const;
  // Further facts for people ("vocabulary of 67"); may be empty.
  virtual std::string Describe() const { return ""; }
  // Warnings of valid but unexpected facts: skipped files, or values that a vocabulary lacks.
  virtual std::vector<std::string> Warnings() const { return {}; }
};

// Returns how many records of this schema to check at a time: 1 to 16, fewer if they are large.
size_t CheckedAtOnce(const Batch& schema);

// Calls `look` with the first 1000 records (fewer if large), some at a time. Returns the first
// error of reading or of `look`.
absl::Status ReadFirstRecords(const DataSource& source,
                              const std::function<absl::Status(const Batch&)>& look);

// Returns INVALID_ARGUMENT naming file and record if one of the first 1000 records (fewer if large)
// has a non-finite number. Workers do not call the function: they compute, and reject the batch
// according to the job's `failures`. The reader of CSV refuses such numbers itself.
absl::Status CheckFirstValues(const DataSource& source);

// Opens and checks the files. An error names the file and row, or the key of the job.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec);

}  // namespace paracord
