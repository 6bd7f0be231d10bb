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

// A layer of a model, including later calls of earlier layers that no cut can separate from it.
struct StageLayer {
  std::string name;
  int64_t bytes = 0;                // bytes of the layer's variables
  int64_t multiply_adds = 0;        // for one example of a training step, forward and backward
  size_t begin = 0;                 // first node in the graph; the next layer's `begin` is the end
  bool table = false;               // has a table, which must be in the first stage
  std::vector<size_t> shares = {};  // indices of earlier layers with weights in common
};

// Returns the index of each stage's first layer, ascending from 0. The job names first layers, or
// gives a number of stages: then the heaviest stage is as light as possible, and a stage weighs a
// share of the model's multiply-adds plus a share of the bytes. INVALID_ARGUMENT names the key, and
// the layer of a bad cut: unknown or in the wrong order, with weights used in two stages, or with a
// table after the first stage; or says in how many places the model can be cut.
absl::StatusOr<std::vector<size_t>> CutStages(std::span<const StageLayer> layers,
                                              const StagesSpec& stages);

// Returns a line for each stage: layers, bytes of variables, multiply-adds.
std::string StagesText(std::span<const StageLayer> layers, std::span<const size_t> begins);

}  // namespace paracord
