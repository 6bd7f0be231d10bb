// A preprocessing layer of Keras (StringLookup, Hashing, CategoryEncoding, ...), and the table of
// all such layers. Turns raw values of the data, perhaps strings or integers beyond float32, into
// indices, encoded according to `output_mode`. Runs on the worker's processor before the graph,
// whose tensors are float32. Constant once built; used by any thread.
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

// The kind and the shape of an example's values.
struct RawType {
  RawKind kind = RawKind::kFloat;
  Shape shape;
  int64_t below = 0;  // integers are smaller than this; 0: no such limit is known
};

// The values of some examples, in the span of their kind.
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

// Returns where an element of `elements` of a batch comes from, for people: "train.csv row 17".
using RawPlace = std::function<std::string(size_t element, size_t elements)>;

// How indices are encoded.
struct IndexEncoding {
  enum class Mode { kInt, kOneHot, kMultiHot, kCount, kTfIdf };
  Mode mode = Mode::kInt;
  int64_t depth = 0;           // number of different indices
  std::vector<float> weights;  // kTfIdf: weights of the indices from 0 on; all others are 0
};

class PreprocessingStep {
 public:
  virtual ~PreprocessingStep() = default;

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }

  // Returns the output's type for inputs of these types. INVALID_ARGUMENT does not name the layer.
  virtual absl::StatusOr<RawType> OutputType(std::span<const RawType> inputs) const;
  // Computes the output for inputs of the types given to OutputType: integers or floats, as
  // OutputType says. INVALID_ARGUMENT names the place of a value that the layer cannot take.
  virtual absl::Status Run(std::span<const RawView> inputs, size_t examples, const RawPlace& place,
                           RawValues& out) const;

  // Adds how many values of an input a vocabulary looks up, and how many of the values are unknown.
  virtual void CountUnknown(const RawView& /*input*/, LookupCount& /*count*/) const {}

 protected:
  explicit PreprocessingStep(const LayerConfig& config)
      : name_(config.name()), class_name_(config.class_name()) {}
  // Reads the key output_mode (default: `otherwise`), which must be in `modes`. A layer sets
  // encoding_.depth by other means.
  void ReadMode(LayerConfig& config, const char* otherwise, std::vector<std::string_view> modes);
  // INVALID_ARGUMENT if the layer cannot take inputs of these types.
  virtual absl::Status CheckInputs(std::span<const RawType> inputs) const = 0;
  // Computes an index for each element of the inputs. Encodings other than kInt leave out indices
  // of `depth` or more. kOneHot leaves out negative indices, too; the others return
  // INVALID_ARGUMENT.
  virtual absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                               std::vector<int64_t>& out) const = 0;

  IndexEncoding encoding_;

 private:
  absl::Status Encode(std::span<const int64_t> indices, size_t examples, const RawPlace& place,
                      std::vector<float>& out) const;

  const std::string name_;
  const std::string class_name_;
};

// Rounds towards zero, as Keras does. Returns false unless the value is between -9e18 and 9e18.
bool TruncateToInteger(float value, int64_t& out);

// The class names of all preprocessing layers.
std::span<const std::string_view> PreprocessingLayerNames();
bool IsPreprocessingLayer(std::string_view class_name);
// Makes a layer from its config. INVALID_ARGUMENT names the layer and the key.
absl::StatusOr<std::unique_ptr<PreprocessingStep>> MakePreprocessingStep(const LayerSpec& layer,
                                                                         bool keras2);

// The functions that make the layers of the table.
std::unique_ptr<PreprocessingStep> MakeCategoryEncoding(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeDiscretization(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeHashedCrossing(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeHashing(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeIntegerLookup(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeStringLookup(LayerConfig& config);
std::unique_ptr<PreprocessingStep> MakeTextVectorization(LayerConfig& config);
// Makes the StringLookup for the tokens of a TextVectorization; the mask token is "".
std::unique_ptr<PreprocessingStep> MakeTokenLookup(LayerConfig& config);

}  // namespace paracord
