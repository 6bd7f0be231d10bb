// A preprocessing layer of Keras (StringLookup, Hashing, CategoryEncoding, ...): from raw values of
// the data, which may be strings or integers that float32 does not have, to indices, and from these
// to numbers as `output_mode` says. Runs on the worker's processor before the graph, whose tensors
// are float32. Constant once built. The table of such layers is here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keras/json.h"
#include "keras/layers/layer.h"
#include "keras/layers/layer_config.h"
#include "program/gradient_program.h"

namespace paracord {

enum class RawKind { kFloat, kInteger, kString };

// Of one example.
struct RawType {
  RawKind kind = RawKind::kFloat;
  Shape shape;
  int64_t below = 0;  // integers: all are smaller; 0: not known
};

// The values of some examples; the span of its kind is the one that counts.
struct RawView {
  RawKind kind = RawKind::kFloat;
  std::span<const float> floats;
  std::span<const int64_t> integers;
  std::span<const std::string> strings;
  size_t size() const {
    return kind == RawKind::kFloat     ? floats.size()
           : kind == RawKind::kInteger ? integers.size()
                                       : strings.size();
  }
};

struct RawValues {
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

// "train.csv row 17": where this element, of so many in the batch, comes from.
using RawPlace = std::function<std::string(size_t element, size_t elements)>;

// What becomes of indices.
struct IndexEncoding {
  enum class Mode { kInt, kOneHot, kMultiHot, kCount, kTfIdf };
  Mode mode = Mode::kInt;
  int64_t depth = 0;           // how many indices there are
  std::vector<float> weights;  // kTfIdf: of the first indices; 0 of others
};

class PreprocessingStep {
 public:
  virtual ~PreprocessingStep() = default;

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }

  // Errors do not name the layer.
  virtual absl::StatusOr<RawType> OutputType(std::span<const RawType> inputs) const;
  // Of inputs of those types. Integers come out where OutputType says so, else floats. An error
  // names the place of the element.
  virtual absl::Status Run(std::span<const RawView> inputs, size_t examples, const RawPlace& place,
                           RawValues& out) const;

  // Adds how many values of a batch's input are looked up in a vocabulary, and how many of them
  // are not in it.
  virtual void CountUnknown(const RawView& /*input*/, LookupCount& /*count*/) const {}

 protected:
  explicit PreprocessingStep(const LayerConfig& config)
      : name_(config.name()), class_name_(config.class_name()) {}
  // By the key output_mode, one of `modes`. `depth` is set by the layer.
  void ReadMode(LayerConfig& config, const char* otherwise, std::vector<std::string_view> modes);
  // The inputs can be taken.
  virtual absl::Status CheckInputs(std::span<const RawType> inputs) const = 0;
  // An index for each element of the inputs. Those outside [0, depth) are left out of an encoding.
  virtual absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                               std::vector<int64_t>& out) const = 0;

  IndexEncoding encoding_;

 private:
  absl::Status Encode(std::span<const int64_t> indices, size_t examples, const RawPlace& place,
                      std::vector<float>& out) const;

  const std::string name_;
  const std::string class_name_;
};

// As Keras casts: towards zero. False if it is not finite or too large.
bool TruncateToInteger(float value, int64_t& out);

// The layers of this kind.
std::span<const std::string_view> PreprocessingLayerNames();
bool IsPreprocessingLayer(std::string_view class_name);
// The error names the layer and the key.
absl::StatusOr<std::unique_ptr<PreprocessingStep>> MakePreprocessingStep(const LayerSpec& layer,
                                                                         bool keras2);

// The makers of the table.
std::unique_ptr<PreprocessingStep> MakeCategoryEncoding(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeDiscretization(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeHashedCrossing(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeHashing(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeIntegerLookup(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeStringLookup(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeTextVectorization(LayerConfig& config);
// What a TextVectorization looks its tokens up by: a StringLookup whose mask is the empty word.
std::unique_ptr<PreprocessingStep> MakeTokenLookup(LayerConfig& config);

}  // namespace paracord
