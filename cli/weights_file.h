// The values of a model's variables in a safetensors file, as `export` writes them, or in a file of
// Keras. Blocking, in main's thread. Errors name the file and the tensor.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"

namespace paracord {

// The weights, in the order of the model's variables. `ids` has the ids of the rows of growing
// tables.
struct Weights {
  std::vector<std::vector<float>> values;
  VariableIds ids;
};

absl::StatusOr<Weights> ReadWeights(Files& files, const std::string& path,
                                    const std::vector<VariableSpec>& variables);

}  // namespace paracord
