// tf.train.Example (tensorflow/core/example/example.proto): named lists of floats, of int64 or of
// bytes. Read and written by hand, straight from and to the bytes of a record. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

struct ExampleFeature {
  enum class Kind { kNone, kBytes, kFloat, kInt64 };
  std::string_view name;
  Kind kind = Kind::kNone;
  std::string_view list;  // the encoded BytesList, FloatList or Int64List
};

// Replaces `features`, whose views point into `example`. INVALID_ARGUMENT says what is wrong, not
// where.
absl::Status ParseExample(std::string_view example, std::vector<ExampleFeature>& features);

// The numbers of a float or int64 list; INVALID_ARGUMENT if there are not out.size() of them, or
// one is an integer that float32 cannot hold.
absl::Status ReadNumbers(const ExampleFeature& feature, std::span<float> out);
// The strings of a bytes list, or the integers of an int64 list as decimal text; INVALID_ARGUMENT
// if there are not out.size() of them.
absl::Status ReadTexts(const ExampleFeature& feature, std::span<std::string> out);
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
