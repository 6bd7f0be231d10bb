// The batch that `paracord compute` is given as a file of tensors.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Reads inputs, targets and weights by the names of their tensors, and inputs of whole numbers as
// the model has them. INVALID_ARGUMENT names a tensor that is none of these.
absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model, const std::string& path);

}  // namespace paracord
