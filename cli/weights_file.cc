#include "cli/weights_file.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/keras_file.h"
#include "cli/tensor_file.h"
#include "common/status_macros.h"
#include "config/job.h"
#include "config/job_file.h"
#include "config/partitions.h"
#include "store/initial_weights.h"

namespace paracord {
namespace {

// Takes the rows of a growing table out of the file, as export writes them; there may be none.
absl::Status TakeRows(const VariableSpec& variable, std::vector<ReadTensor>& tensors,
                      std::vector<float>& values, std::vector<uint64_t>& ids) {
  const auto take = [&](const char* what) {
    const std::string name = absl::StrCat(variable.name(), "/", what);
    const auto found = std::ranges::find(tensors, name, &ReadTensor::name);
    ReadTensor tensor;
    if (found == tensors.end()) return tensor;
    tensor = std::move(*found);
    tensors.erase(found);
    return tensor;
  };
  ReadTensor rows = take("rows"), named = take("ids");
  std::vector<int64_t> whole;
  const Column column{.name = "", .shape = {}, .values = named.values, .exact = named.exact};
  const bool known = !WholeNumbers(column, whole).has_value();
  const bool fits = rows.values.size() == whole.size() * RowElements(variable);
  ids.assign(whole.begin(), whole.end());
  if (!known || !fits || std::ranges::adjacent_find(ids, std::greater_equal()) != ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensors ", variable.name(), "/ids and ", variable.name(), "/rows are not a row of ",
        RowElements(variable), " numbers for each id, which ascend as unsigned numbers"));
  }
  values = std::move(rows.values);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Weights> ReadWeights(Files& files, const std::string& path,
                                    const std::vector<VariableSpec>& variables) {
  const auto in_file = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(status.message())));
  };
  const auto form_of = [](const std::string& name) {
    return name.ends_with("/ids") ? TensorForm::kWhole : TensorForm::kNumbers;
  };
  std::string of_keras;
  if (IsKerasFileName(path)) {
    ASSIGN_OR_RETURN(of_keras, KerasWeights(files, path, variables, /*partial=*/false));
  }
  WeightsInMemory memory(path, std::move(of_keras));
  ASSIGN_OR_RETURN(std::vector<ReadTensor> tensors,
                   ReadTensors(IsKerasFileName(path) ? memory : files, path, form_of));
  Weights weights{std::vector<std::vector<float>>(variables.size()), VariableIds(variables.size())};
  std::vector<VariableSpec> others;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!IsGrowing(variables[v])) {
      others.push_back(variables[v]);
      continue;
    }
    const absl::Status taken = TakeRows(variables[v], tensors, weights.values[v], weights.ids[v]);
    if (!taken.ok()) return in_file(taken);
  }
  std::vector<std::string_view> names;
  for (const ReadTensor& tensor : tensors) names.push_back(tensor.name);
  const absl::StatusOr<std::vector<size_t>> found = FindVariables(names, others);
  if (!found.ok()) return in_file(found.status());
  for (size_t v = 0, next = 0; v < variables.size(); ++v) {
    if (IsGrowing(variables[v])) continue;
    ReadTensor& tensor = tensors[(*found)[next++]];
    const std::vector<uint64_t> shape(variables[v].shape().begin(), variables[v].shape().end());
    if (tensor.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " has shape ",
                                                     ShapeText(tensor.shape), ", the model's is ",
                                                     ShapeText(shape)));
    }
    weights.values[v] = std::move(tensor.values);
  }
  return weights;
}

}  // namespace paracord
