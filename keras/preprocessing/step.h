// A preprocessing layer of Keras (StringLookup, Hashing, CategoryEncoding, ...), and the table of
// all such layers. Turns values of the data, which may be strings or integers that float32 cannot
// hold, into indices, encoded according to the key `output_mode`. Computed on the processor, before
// the graph, whose tensors are float32. Does not change once built; used by any thread.
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
  int64_t below = 0;  // kInteger: all values are smaller than `below`; 0: no such limit is known
};

// The values of some examples. Only the span of their kind has them.
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

// Returns the record of element number `element`, for errors: "train.csv row 17". `elements` is the
// number of elements of an input over the whole batch.
using RawPlace = std::function<std::string(size_t element, size_t elements)>;

// How indices are encoded.
struct IndexEncoding {
  enum class Mode { kInt, kOneHot, kMultiHot, kCount, kTfIdf };
  Mode mode = Mode::kInt;
  int64_t depth = 0;           // indices are below `depth`, which is the size of an encoded row
  std::vector<float> weights;  // kTfIdf: weights[i] is that of index i; 0 for further indices
};

class PreprocessingStep {
 public:
  virtual ~PreprocessingStep() = default;

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }

  // Returns the output's type for inputs of these types. INVALID_ARGUMENT does not name the layer.
  virtual absl::StatusOr<RawType> OutputType(std::span<const RawType> inputs) const;
  // Computes the output into out.integers or out.floats, as OutputType said for these inputs.
  // INVALID_ARGUMENT: the layer cannot take a value, whose record the error names.
  virtual absl::Status Run(std::span<const RawView> inputs, size_t examples, const RawPlace& place,
                           RawValues& out) const;

  // If the layer has a vocabulary, adds the number of values in `input` that it looks up, and the
  // number of those that the vocabulary lacks.
  virtual void CountUnknown(const RawView& /*input*/, LookupCount& /*count*/) const {}

 protected:
  explicit PreprocessingStep(const LayerConfig& config)
      : name_(config.name()), class_name_(config.class_name()) {}
  // Reads the key output_mode (default: `otherwise`), which must be in `modes`. Sets
  // encoding_.mode, but not the rest of encoding_.
  void ReadMode(LayerConfig& config, const char* otherwise, std::vector<std::string_view> modes);
  // INVALID_ARGUMENT if the layer cannot take inputs of these types.
  virtual absl::Status CheckInputs(std::span<const RawType> inputs) const = 0;
  // Computes an index for each element of the inputs. For encodings other than kInt, Run leaves out
  // indices of encoding_.depth or more; negative indices are left out by kOneHot, and are an error
  // (INVALID_ARGUMENT) for the others.
  virtual absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                               std::vector<int64_t>& out) const = 0;

  IndexEncoding encoding_;

 private:
  absl::Status Encode(std::span<const int64_t> indices, size_t examples, const RawPlace& place,
                      std::vector<float>& out) const;

  const std::string name_;
  const std::string class_name_;
};

// Rounds `value` towards zero, as Keras does. Returns false if it is not between -9e18 and 9e18.
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
// Makes the StringLookup for the tokens of a TextVectorization, whose mask token is "".
std::unique_ptr<PreprocessingStep> MakeTokenLookup(LayerConfig& config);

}  // namespace paracord
