// Cuts a model into stages of neighbouring layers (key `stages` of a job). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"

namespace paracord {

// The nodes of a graph from the first call of a layer to the first call of the next layer. Further
// calls of earlier layers may be among them.
struct StageLayer {
  std::string name;
  int64_t bytes = 0;                // the bytes of the layer's variables
  int64_t multiply_adds = 0;        // of a training step, forward and backward, for one example
  size_t begin = 0;                 // the first node; the next StageLayer's `begin` is the end
  bool table = false;               // true: has a table, which must be in the first stage
  std::vector<size_t> shares = {};  // indices of the earlier layers that are called again
};

// Returns the index of each stage's first layer, ascending from 0. `stages` has the names of these
// layers, except for stage 0, or only the number of stages: then the heaviest stage is as light as
// possible, and a stage weighs its share of the model's multiply-adds plus its share of the bytes.
// INVALID_ARGUMENT names the key, and the layer at fault: unknown, in the wrong order, with weights
// used in two stages, or with a table after the first stage; or says that the model has too few
// layers, or too few places to cut, for the number of stages.
absl::StatusOr<std::vector<size_t>> CutStages(std::span<const StageLayer> layers,
                                              const StagesSpec& stages);

// Returns a line of text for each stage, with its layers, bytes of variables and multiply-adds.
// `begins` is the result of CutStages.
std::string StagesText(std::span<const StageLayer> layers, std::span<const size_t> begins);

}  // namespace paracord
