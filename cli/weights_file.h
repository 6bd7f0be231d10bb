// Reads the values of a model's variables from a safetensors file, as `paracord export` writes it,
// or from a Keras file. Blocking, in main's thread. Errors name the file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"

namespace paracord {

// Values and ids of each variable, in the order of the model's variables. `ids` has the ids of the
// rows of growing tables; for other variables it is empty.
struct Weights {
  std::vector<std::vector<float>> values;
  VariableIds ids;
};

absl::StatusOr<Weights> ReadWeights(Files& files, const std::string& path,
                                    const std::vector<VariableSpec>& variables);

}  // namespace paracord
