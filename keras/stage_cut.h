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

// A layer of a model, including later calls of earlier layers that no cut can separate.
struct StageLayer {
  std::string name;
  int64_t bytes = 0;                // bytes of its variables
  int64_t multiply_adds = 0;        // per example of a training step, forward and backward
  size_t begin = 0;                 // first node in the graph; the next layer's first node ends it
  bool table = false;               // rows travel alone: only in the first stage
  std::vector<size_t> shares = {};  // earlier layers whose weights it uses, too
};

// Returns the first layer of each stage, ascending, beginning with 0. A stage weighs its share of
// the model's multiply-adds plus its share of the bytes; a given number of stages is cut to make
// the heaviest stage as light as possible. INVALID_ARGUMENT names the key and the layers: for
// unknown names, weights used by two stages, tables after the first stage, and fewer layers than
// stages.
absl::StatusOr<std::vector<size_t>> CutStages(std::span<const StageLayer> layers,
                                              const StagesSpec& stages);

// Returns a line for each stage: layers, bytes of variables, multiply-adds.
std::string StagesText(std::span<const StageLayer> layers, std::span<const size_t> begins);

}  // namespace paracord
