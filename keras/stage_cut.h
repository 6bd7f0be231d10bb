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

// A layer of a model, with the later calls of layers before it that no cut can part from it.
struct StageLayer {
  std::string name;
  int64_t bytes = 0;          // of its variables
  int64_t multiply_adds = 0;  // of a training step over one example, forward and backward
  size_t begin = 0;           // its first node in the graph; those of the layer after it end it
  bool table = false;         // has rows that travel alone, which only the first stage has
  std::vector<size_t> shares = {};  // layers before it whose weights it takes, too
};

// Returns the layers with which stages begin, ascending, the first one at 0. A stage weighs its
// share of the model's multiply-adds plus its share of the bytes, and a number of stages is cut
// such that the heaviest stage is as light as possible. INVALID_ARGUMENT names the key and the
// layers: of names that no layer has, of weights that two stages would share, of tables after the
// first stage, and if there are fewer layers than stages.
absl::StatusOr<std::vector<size_t>> CutStages(std::span<const StageLayer> layers,
                                              const StagesSpec& stages);

// Returns a line for each stage: its layers, the bytes of its variables and its multiply-adds.
std::string StagesText(std::span<const StageLayer> layers, std::span<const size_t> begins);

}  // namespace paracord
