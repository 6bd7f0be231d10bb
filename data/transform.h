// Transforms the images of a source, in the order of the steps: {"transform": [{"crop": [32, 32],
// "pad": 4}, {"flip": "horizontal"}, {"normalise": {"mean": 0.5, "std": 0.25}}]}. In training,
// crops lie anywhere in the image and about half of the images are flipped, as a pure function of
// the epoch's key and the record. Otherwise crops are centred, and nothing is flipped. Constant
// once made; thread-safe if the source is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

struct TransformStep {
  enum class Kind { kCrop, kFlip, kNormalise };
  Kind kind = Kind::kNormalise;
  std::string path;                         // the step's key in the job, for errors
  uint64_t height = 0, width = 0, pad = 0;  // kCrop; first `pad` zeros are added on every side
  bool vertical = false;                    // kFlip: upside down instead of left to right
  std::vector<float> mean, std;             // kNormalise: one number, or one for each channel
};

std::vector<TransformStep> ReadTransform(const nlohmann::json& value, const std::string& path,
                                         Problems& problems);

// INVALID_ARGUMENT names a step that does not fit the source, which must have one input.
absl::StatusOr<std::unique_ptr<DataSource>> MakeTransformed(std::unique_ptr<DataSource> source,
                                                            std::vector<TransformStep> steps);

}  // namespace paracord
