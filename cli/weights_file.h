// The values of a model's variables in a safetensors file, as `export` writes them. Blocking, in
// main's thread. Errors name the file and the tensor.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"

namespace paracord {

// The weights are in the order of the model's variables. A growing table has rows and their ids.
struct Weights {
  std::vector<std::vector<float>> values;
  VariableIds ids;
};

absl::StatusOr<Weights> ReadWeights(Files& files, const std::string& path,
                                    const std::vector<VariableSpec>& variables);

}  // namespace paracord
