// The inputs, targets and weights made from the features of a tf.train.Example: numbers, raw bytes
// of a type, a picture, or strings for a model that takes strings. A feature has a fixed shape, or
// is a padded list of varying length. Specs are constant once read from the job, and many threads
// fill batches by them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/json_fields.h"
#include "data/data_source.h"
#include "data/element.h"
#include "data/tf_example.h"

namespace paracord {

struct FeatureSpec {
  enum class Kind {
    kAny,      // float or int64, whichever is there
    kFloat,    // a list of floats, or their raw bytes
    kInt64,    // a list of int64, or their raw bytes
    kRaw,      // the raw bytes of one string, with elements of type `element`
    kImage,    // JPEG or PNG, resized to the shape
    kString,   // strings for string inputs, or int64 as decimal text
    kPresent,  // for a padded list: 1 for each present value, 0 for padding
  };
  enum class Cut { kNone, kEnd, kStart };

  std::string name;
  std::string path;   // the spec's key in the job, for errors
  std::string group;  // the model's input or output
  std::vector<uint64_t> shape;
  size_t size = 1;
  // Indices of the spec's Column in a batch and of its first value in an example, by FeatureGroups.
  size_t column = 0, offset = 0;
  Kind kind = Kind::kAny;
  std::string dtype;  // the job's text, for errors
  ElementType element = ElementType::kF32;
  bool big_endian = false;
  double scale = 1;
  std::optional<double> default_value;
  std::optional<std::string> default_text;
  // With a pad_value or pad_text, a list with fewer rows than shape[0] is padded.
  std::optional<double> pad_value;
  std::optional<std::string> pad_text;
  Cut cut = Cut::kNone;    // the end at which a list that is too long is cut off
  bool text_list = false;  // for kPresent: the list has strings

  bool text() const { return kind == Kind::kString; }
  bool pads() const { return pad_value.has_value() || pad_text.has_value(); }
};

// Reads the spec or the list of specs under `key`; none if the key is missing. A spec names its
// input or output under `group_key`.
std::vector<FeatureSpec> ReadFeatureSpecs(JsonFields& fields, const std::string& key,
                                          const std::string& group_key, Problems& problems);

// Returns a batch column for each group (input or output), and sets `column` and `offset` of the
// specs. A group of one feature keeps its shape; several features form a vector of all numbers.
std::vector<Column> FeatureGroups(std::vector<FeatureSpec>& specs);

// FillNumbers and FillTexts write spec.size values to `out`. `feature` is null if the example lacks
// it. INVALID_ARGUMENT does not name the feature. Large whole numbers are also listed in `exact`.
absl::Status FillNumbers(const FeatureSpec& spec, const ExampleFeature* feature,
                         std::span<float> out, std::vector<ExactInteger>& exact);
absl::Status FillTexts(const FeatureSpec& spec, const ExampleFeature* feature,
                       std::span<std::string> out);

}  // namespace paracord
