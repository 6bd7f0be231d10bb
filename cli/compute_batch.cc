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

// The kind of an input in the model decides how its tensor is read.
TensorForm FormOf(const std::map<std::string, RawKind>& kinds, const std::string& tensor) {
  if (!tensor.starts_with("inputs/")) return TensorForm::kNumbers;
  const auto named = kinds.find(tensor.substr(7));
  const auto it = kinds.size() == 1 ? kinds.begin() : named;
  if (it == kinds.end() || it->second == RawKind::kFloat) return TensorForm::kNumbers;
  return it->second == RawKind::kString ? TensorForm::kText : TensorForm::kWhole;
}

using Kinds = std::map<std::string, RawKind>;

// The kinds of a model's inputs, by name.
absl::StatusOr<Kinds> KindsOf(const nlohmann::json& model) {
  if (!IsStableHlo(model)) return InputKinds(model);
  ASSIGN_OR_RETURN(const ProgramFile program, ReadProgramFile(model.at("file")));
  Kinds kinds;
  for (const ProgramColumn& column : program.inputs) {
    kinds[column.name] = column.type == ColumnType::kFloat32 ? RawKind::kFloat : RawKind::kInteger;
  }
  return kinds;
}

}  // namespace

absl::StatusOr<Batch> ReadBatch(Files& files, const nlohmann::json& model,
                                const std::string& path) {
  ASSIGN_OR_RETURN(const Kinds kinds, KindsOf(model));
  ASSIGN_OR_RETURN(
      std::vector<ReadTensor> tensors,
      ReadTensors(files, path, [&](const std::string& tensor) { return FormOf(kinds, tensor); }));
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
  if (batch.targets.empty()) return absl::InvalidArgumentError(path + ": no tensor targets");
  return batch;
}

}  // namespace paracord
