// tf.train.Example (tensorflow/core/example/example.proto): named lists of floats, of int64 or of
// bytes. Read and written by hand, straight from and to the bytes of a record. Pure.
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
  // Of a tf.train.SequenceExample's feature_lists: the lists of all steps, one after the other,
  // which is what `list` points to.
  std::unique_ptr<std::string> joined;
};

// Replaces `features`, whose views point into `example`; of a tf.train.SequenceExample these are
// the features of its context and its feature_lists. INVALID_ARGUMENT says what is wrong, not
// where.
absl::Status ParseExample(std::string_view example, std::vector<ExampleFeature>& features);

// How many numbers a float or int64 list has; the first of them go to `out`, as many as there is
// room for. Large whole numbers of an int64 list are listed in `exact`, too, from element `first`
// on.
absl::StatusOr<size_t> ReadNumbers(const ExampleFeature& feature, std::span<float> out,
                                   size_t first, std::vector<ExactInteger>& exact);
// Appends the strings of a bytes list, or the integers of an int64 list as decimal text.
absl::Status ReadTexts(const ExampleFeature& feature, std::vector<std::string>& out);
// The only string of a bytes list.
absl::StatusOr<std::string_view> ReadBytes(const ExampleFeature& feature);

class ExampleBuilder {
 public:
  void Floats(std::string_view name, std::span<const float> values);
  void Ints(std::string_view name, std::span<const int64_t> values);
  void Bytes(std::string_view name, std::string_view value);
  void Texts(std::string_view name, std::span<const std::string> values);
  // The serialized example; the builder starts anew.
  std::string Take();

 private:
  void Add(std::string_view name, int kind, const std::string& list);
  std::string features_;
};

}  // namespace paracord
