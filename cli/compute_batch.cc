#include "cli/compute_batch.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/tensor_file.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "keras/preprocessing/preprocessor.h"
#include "program/program_file.h"

namespace paracord {
namespace {

TensorForm FormOfKind(RawKind kind) {
  switch (kind) {
    case RawKind::kFloat:
      return TensorForm::kNumbers;
    case RawKind::kString:
      return TensorForm::kText;
    case RawKind::kInteger:
      break;
  }
  return TensorForm::kWhole;
}

}  // namespace

absl::StatusOr<InputForms> InputForms::Of(const nlohmann::json& model) {
  InputForms forms;
  if (IsStableHlo(model)) {
    ASSIGN_OR_RETURN(const ProgramFile program, ReadProgramFile(model.at("file")));
    for (const ProgramColumn& column : program.inputs) {
      const bool whole = column.type != ColumnType::kFloat32;
      forms.by_name_[column.name] = whole ? TensorForm::kWhole : TensorForm::kNumbers;
    }
  } else if (IsProgram(model)) {
    forms.other_ = TensorForm::kWhole;  // only a running program tells which inputs are whole
  } else {
    ASSIGN_OR_RETURN(const auto kinds, InputKinds(model));
    for (const auto& [name, kind] : kinds) forms.by_name_[name] = FormOfKind(kind);
  }
  return forms;
}

TensorForm InputForms::operator[](const std::string& input) const {
  const auto named = by_name_.find(input);
  const auto it = by_name_.size() == 1 ? by_name_.begin() : named;
  return it == by_name_.end() ? other_ : it->second;
}

absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model, const std::string& path,
                                bool inputs_alone) {
  ASSIGN_OR_RETURN(const InputForms forms, InputForms::Of(model));
  ASSIGN_OR_RETURN(
      std::vector<ReadTensor> tensors, ReadTensors(files, path, [&](const std::string& tensor) {
        return tensor.starts_with("inputs/") ? forms[tensor.substr(7)] : TensorForm::kNumbers;
      }));
  Batch batch;
  for (ReadTensor& tensor : tensors) {
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " ", what));
    };
    if (tensor.shape.empty() || tensor.shape[0] == 0 || tensor.shape[0] > (1u << 24)) {
      return refuse("has no examples along axis 0");
    }
    if (batch.examples != 0 && tensor.shape[0] != batch.examples) {
      return refuse(
          absl::StrCat("has ", tensor.shape[0], " examples, the others have ", batch.examples));
    }
    batch.examples = static_cast<uint32_t>(tensor.shape[0]);
    Column column;
    column.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
    column.values = std::move(tensor.values);
    column.text = !tensor.strings.empty();
    column.strings = std::move(tensor.strings);
    column.exact = std::move(tensor.exact);
    if (tensor.name.starts_with("inputs/")) {
      column.name = tensor.name.substr(7);
      batch.inputs.push_back(std::move(column));
    } else if (tensor.name == "targets" || tensor.name.starts_with("targets/")) {
      if (tensor.name != "targets") column.name = tensor.name.substr(8);
      batch.targets.push_back(std::move(column));
    } else if (tensor.name == "weights" || tensor.name.starts_with("weights/")) {
      if (tensor.name != "weights") column.name = tensor.name.substr(8);
      batch.weights.push_back(std::move(column));
    } else {
      return refuse("is none of inputs/<input layer>, targets and weights");
    }
  }
  if (batch.inputs.empty()) return absl::InvalidArgumentError(path + ": no tensor inputs/<name>");
  if (inputs_alone) return batch;
  if (batch.targets.empty()) return absl::InvalidArgumentError(path + ": no tensor targets");
  return batch;
}

}  // namespace paracord
