// Reads and writes tf.train.Example (tensorflow/core/example/example.proto): named lists of floats,
// of int64 or of bytes. Works directly on the bytes of a record, without protobuf's classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

struct ExampleFeature {
  enum class Kind { kNone, kBytes, kFloat, kInt64 };
  std::string_view name;
  Kind kind = Kind::kNone;
  std::string_view list;  // the encoded BytesList, FloatList or Int64List
  // Only for a feature list of a SequenceExample: the joined lists of all steps, for `list`.
  std::unique_ptr<std::string> joined;
};

// Replaces `features` by the features of `example`, which point into `example`. A
// tf.train.SequenceExample has the features of its context and its feature lists. INVALID_ARGUMENT
// says what is wrong, but not where.
absl::Status ParseExample(std::string_view example, std::vector<ExampleFeature>& features);

// Returns the length of a float or int64 list, and writes its numbers to `out`, as far as there is
// room. Also appends the large whole numbers of an int64 list to `exact`; the first number of the
// list has the index `first` there.
absl::StatusOr<size_t> ReadNumbers(const ExampleFeature& feature, std::span<float> out,
                                   size_t first, std::vector<ExactInteger>& exact);
// Appends the strings of a bytes list, or the integers of an int64 list as decimal text.
absl::Status ReadTexts(const ExampleFeature& feature, std::vector<std::string>& out);
// Returns the only string of a bytes list. INVALID_ARGUMENT if there is not exactly one.
absl::StatusOr<std::string_view> ReadBytes(const ExampleFeature& feature);

class ExampleBuilder {
 public:
  void Floats(std::string_view name, std::span<const float> values);
  void Ints(std::string_view name, std::span<const int64_t> values);
  void Bytes(std::string_view name, std::string_view value);
  void Texts(std::string_view name, std::span<const std::string> values);
  // Returns the serialized example and clears the builder.
  std::string Take();

 private:
  void Add(std::string_view name, int kind, const std::string& list);
  std::string features_;
};

}  // namespace paracord
