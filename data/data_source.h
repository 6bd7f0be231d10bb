// The examples of a data set; an example is read by the number of its record. The reader of each
// format implements DataSource, and the table of formats (data_source.cc) has a function that opens
// it. Thread-safe once opened, because batches are prepared on a thread of their own.
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

// float32 represents every whole number with a lower absolute value, but not every larger one.
constexpr int64_t kExactBelow = int64_t{1} << 24;

// A whole number in a Column with an absolute value of at least kExactBelow.
struct ExactInteger {
  size_t element = 0;  // the index in `values` of the Column
  // An unsigned number beyond int64 has the same 64 bits, and is negative here.
  int64_t value = 0;
  bool operator==(const ExactInteger&) const = default;
};

// The values of an input, a target or a weight for some examples, row-major. `name` is that of the
// input or output, "" if the model has only one.
struct Column {
  std::string name;
  std::vector<uint64_t> shape;  // the shape of one example
  std::vector<float> values;    // examples x shape
  // If true, the Column has strings instead of values: for an input of a preprocessing layer. Whole
  // numbers may also be strings of decimal digits.
  bool text = false;
  std::vector<std::string> strings = {};  // examples x shape
  // The large whole numbers among the values, by ascending `element`, as far as the reader knows
  // all their digits: a lookup must get ids unchanged. Other large values may have lost digits.
  std::vector<ExactInteger> exact = {};
};

// Appends `value` to the exact numbers of a Column if float32 may not represent it. Callers pass
// elements in ascending order.
inline void KeepExact(size_t element, int64_t value, std::vector<ExactInteger>& exact) {
  if (value >= kExactBelow || value <= -kExactBelow) exact.push_back({element, value});
}

// Whether a float64 is a whole number up to 2^53 in absolute value, so that no digit was lost.
inline bool IsExactInteger(double value) {
  return std::abs(value) <= 9007199254740992.0 && value == std::trunc(value);
}

// Converts a Column to whole numbers: a value that `exact` lists is taken from `exact`, and any
// other is truncated towards zero. Stops at the first value that is not finite, or is large and not
// in `exact`, and returns its element; returns nullopt if there is none.
std::optional<size_t> WholeNumbers(const Column& column, std::vector<int64_t>& out);

// Returns the first of the Column's exact numbers that is beyond int64; null if there is none.
const ExactInteger* FirstBeyondInt64(const Column& column);

// Returns the decimal digits of an element, even of an unsigned number beyond int64. `whole` is the
// result of WholeNumbers for the element.
std::string DigitsOf(const Column& column, size_t element, int64_t whole);
// Says why an id that WholeNumbers refused is invalid, such as "id 1e+20 is ...".
std::string WhyNoId(float value);

class DataSource;

struct Batch {
  uint32_t examples = 0;
  std::vector<Column> inputs;
  std::vector<Column> targets;
  // The weights of the examples: a Column for each output that has weights ("" is for all outputs).
  // Without a Column, all examples count alike. An example has one weight, or one for each time
  // step of the output.
  std::vector<Column> weights;
  // The source and the record numbers of the examples, for errors that name file and record. The
  // source is null if the batch comes from no source.
  const DataSource* source = nullptr;
  std::vector<uint64_t> records;
  // What is wrong with the first few unreadable records that the source left out of this batch
  // (`bad_records`); each text names file and record.
  std::vector<std::string> left_out = {};
};

// Returns where an example of a batch comes from: "train.csv row 17", or "example 3 of the batch".
std::string Where(const Batch& batch, size_t example);
// Names the first input, target or weight that is not finite, and its example; "" without one.
std::string FirstNotFinite(const Batch& batch);

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual uint64_t records() const = 0;
  // A text made of the order, the sizes and the record counts of the files, and for most formats of
  // the files' contents. Two workers of a job with equal files have equal texts.
  virtual std::string fingerprint() const = 0;
  // The names and shapes of all Columns, as a batch of 0 examples.
  virtual const Batch& schema() const = 0;
  // Fills `batch`, whose memory is reused, with the examples of `records`, in the order of
  // `records`. An error names file and record. Any thread.
  virtual absl::Status Read(std::span<const uint64_t> records, Batch& batch) const = 0;
  // Like Read, but with the random crops and flips that the job asks for in training: a pure
  // function of `epoch_key` (EpochKey in batch_plan.h) and each record.
  virtual absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t /*epoch_key*/,
                                       Batch& batch) const {
    return Read(records, batch);
  }
  // Returns file and row of a record ("train.csv row 17"), for an error that is found after
  // reading. Names a row in each file if the record is made from several files.
  virtual std::string Where(uint64_t record) const = 0;
  // Returns the unconverted texts of the fields `names` of each record, record after record. A
  // field is a column of a CSV file, a feature of a tf.train.Example, or `path` of a picture.
  // INVALID_ARGUMENT names an unknown field; without `records` only names are checked. Any thread.
  virtual absl::StatusOr<std::vector<std::string>> Fields(std::span<const uint64_t> records,
                                                          std::span<const std::string> names) const;
  // More facts for people ("vocabulary of 67"); "" if there are none.
  virtual std::string Describe() const { return ""; }
  // Warnings about valid but unexpected facts, such as files without records.
  virtual std::vector<std::string> Warnings() const { return {}; }
};

// Returns how many records to check at a time: 1 to 16, fewer if they are large.
size_t CheckedAtOnce(const Batch& schema);

// Calls `look` with the first 1000 records (fewer if they are large), some at a time. Returns the
// first error.
absl::Status ReadFirstRecords(const DataSource& source,
                              const std::function<absl::Status(const Batch&)>& look);

// Returns INVALID_ARGUMENT, which names file and record, if one of the first 1000 records (fewer if
// they are large) has a number that is not finite. Workers do not call this function: they compute
// with such a number and have the batch rejected, as `failures` of the job says.
absl::Status CheckFirstValues(const DataSource& source);

// Opens and checks the files of a source. An error names file and row, or the key of the job.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec);

}  // namespace paracord
