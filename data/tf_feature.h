// How features of a tf.train.Example become inputs, targets and weights: numbers, raw bytes that
// encode numbers of a type, a picture, or strings for a model that takes strings. A feature has a
// fixed shape, or is a list of varying length that is padded. A spec is constant once it is read
// from the job, and any thread may fill batches by it.
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
    kAny,      // a list of floats or of int64, whichever the feature has
    kFloat,    // a list of floats, or one string of their bytes
    kInt64,    // a list of int64, or one string of their bytes
    kRaw,      // one string: the bytes of numbers of type `element`
    kImage,    // a JPEG or PNG file, resized to the shape
    kString,   // strings, or int64 as decimal text, for an input of strings
    kPresent,  // 1 for each value of a padded list, and 0 for padding
  };
  enum class Cut { kNone, kEnd, kStart };

  std::string name;
  std::string path;   // the spec's key in the job, for errors
  std::string group;  // the name of the model's input or output
  std::vector<uint64_t> shape;
  size_t size = 1;
  // FeatureGroups sets `column`, the index in a batch of the Column that gets the feature, and
  // `offset`, the index of the feature's first value in an example of this Column.
  size_t column = 0, offset = 0;
  Kind kind = Kind::kAny;
  std::string dtype;  // the `dtype` as in the job, for errors
  ElementType element = ElementType::kF32;
  bool big_endian = false;
  double scale = 1;
  std::optional<double> default_value;
  std::optional<std::string> default_text;
  // With a pad_value or pad_text, a list with fewer rows than shape[0] is padded at its end.
  std::optional<double> pad_value;
  std::optional<std::string> pad_text;
  Cut cut = Cut::kNone;    // the end at which a too long list is cut off
  bool text_list = false;  // for kPresent: the list has strings

  bool text() const { return kind == Kind::kString; }
  bool pads() const { return pad_value.has_value() || pad_text.has_value(); }
};

// Reads the spec or specs under `key`, if any. A spec names its input or output under `group_key`.
std::vector<FeatureSpec> ReadFeatureSpecs(JsonFields& fields, const std::string& key,
                                          const std::string& group_key, Problems& problems);

// Returns a batch Column for each input or output, and sets `column` and `offset` of the specs. If
// an input or output has one feature, the Column has the feature's shape; if it has several, a
// vector of all their numbers.
std::vector<Column> FeatureGroups(std::vector<FeatureSpec>& specs);

// FillNumbers and FillTexts write spec.size values to `out`. `feature` is null if the example lacks
// the feature. INVALID_ARGUMENT does not name the feature. FillNumbers also lists the large whole
// numbers in `exact`, unless the spec scales them.
absl::Status FillNumbers(const FeatureSpec& spec, const ExampleFeature* feature,
                         std::span<float> out, std::vector<ExactInteger>& exact);
absl::Status FillTexts(const FeatureSpec& spec, const ExampleFeature* feature,
                       std::span<std::string> out);

}  // namespace paracord
