// Batches that commands are given as a file of tensors.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "cli/tensor_file.h"
#include "common/files.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"

namespace paracord {

// How the tensors of a model's inputs are read: as numbers, whole numbers or strings.
class InputForms {
 public:
  static absl::StatusOr<InputForms> Of(const nlohmann::json& model);
  TensorForm operator[](const std::string& input) const;

 private:
  // A single entry is the form of all inputs.
  std::map<std::string, TensorForm> by_name_;
  // The form of inputs that `by_name_` lacks.
  TensorForm other_ = TensorForm::kNumbers;
};

// Reads the tensors inputs/NAME, targets or targets/NAME, and weights or weights/NAME; inputs of
// whole numbers are read in the form that the model takes. With `inputs_alone` targets may be
// missing. INVALID_ARGUMENT names a tensor of another name or of another number of examples, or the
// missing one.
absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model, const std::string& path,
                                bool inputs_alone = false);

}  // namespace paracord
