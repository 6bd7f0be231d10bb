// Reads a batch of examples that a command is given as a file of tensors.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "cli/tensor_file.h"
#include "common/files.h"
#include "data/data_source.h"
#include "nlohmann/json.hpp"

namespace paracord {

// In which form the tensor of each input of a model is read: as numbers, whole numbers or strings.
class InputForms {
 public:
  static absl::StatusOr<InputForms> Of(const nlohmann::json& model);
  TensorForm operator[](const std::string& input) const;

 private:
  // If there is a single entry, its form is the form of all inputs.
  std::map<std::string, TensorForm> by_name_;
  // The form of inputs that `by_name_` lacks.
  TensorForm other_ = TensorForm::kNumbers;
};

// Reads the tensors inputs/NAME, targets or targets/NAME, and weights or weights/NAME of the file
// `path` into a batch. InputForms says how each input is read. Weights may be missing and, with
// `inputs_alone`, also targets. INVALID_ARGUMENT names a tensor with another name, without examples
// or with another number of examples than the tensors before it, or says that inputs or targets are
// missing.
absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model, const std::string& path,
                                bool inputs_alone = false);

}  // namespace paracord
