// Binds a run of a Keras program: checks the batch, and finds parameters, gradients and the batch
// on the device.
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "keras/keras_program.h"

namespace paracord {

absl::Status KerasProgram::CheckBatch(const Batch& batch, bool with_targets) const {
  RETURN_IF_ERROR(data_->CheckShapes(batch));
  RETURN_IF_ERROR(data_->CheckIds(batch));
  if (!with_targets) return absl::OkStatus();
  if (const std::string doubt = doubted_ ? "" : Doubt(batch); !doubt.empty()) {
    doubted_ = true;
    Logger("model").Warn("{}", doubt);
  }
  for (const ModelHead& head : heads_) {
    RETURN_IF_ERROR(CheckTargets(head, batch));
    if (!head.weight.has_value()) continue;
    const size_t given =
        *head.weight < batch.weights.size() ? batch.weights[*head.weight].values.size() : 0;
    if (given != batch.examples && given != batch.examples * static_cast<size_t>(head.loss.rows)) {
      return absl::InvalidArgumentError("the batch's weights do not fit its targets");
    }
  }
  return absl::OkStatus();
}

absl::Status KerasProgram::BindParameters(ConstTensors values) {
  const std::vector<VariableSpec>& all = variables();
  parameters_.clear();
  for (size_t i = 0; i < values.size() && i < all.size(); ++i) {
    if (values[i].size() != static_cast<size_t>(graph_->FloatsOf(i))) break;
    parameters_.push_back(nullptr);
    if (!graph_->OwnsVariable(i)) continue;
    ASSIGN_OR_RETURN(parameters_.back(), copies_.parameters.Expect(i, values[i]));
  }
  if (parameters_.size() == all.size() && values.size() == all.size()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("values do not fit the model's variables, from number ", parameters_.size()));
}

absl::Status KerasProgram::BindGradients(MutableTensors gradients) {
  const std::vector<VariableSpec>& all = variables();
  gradients_.clear();
  for (size_t i = 0; i < gradients.size() && i < all.size(); ++i) {
    const size_t size = all[i].trainable() ? static_cast<size_t>(graph_->FloatsOf(i)) : 0;
    if (gradients[i].size() != size) break;
    gradients_.push_back(nullptr);
    if (size == 0 || !graph_->OwnsVariable(i)) continue;
    ASSIGN_OR_RETURN(gradients_.back(), copies_.gradients.Reserve(i, gradients[i]));
  }
  if (gradients_.size() == all.size() && gradients.size() == all.size()) {
    if (!gradient_sum_) return absl::OkStatus();
    std::vector<GradientSum::Gradient> arrays;
    for (size_t i = 0; i < all.size(); ++i) {
      arrays.push_back({{gradients_[i], static_cast<int64_t>(gradients[i].size())}, Adds(all[i])});
    }
    gradient_sum_->SetGradients(std::move(arrays));
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("gradients do not fit the model's variables, from number ", gradients_.size()));
}

absl::Status KerasProgram::BindBatch(const Batch& batch, bool with_targets) {
  batch_inputs_.clear();
  for (size_t i = 0; i < data_->columns().size(); ++i) {
    batch_inputs_.push_back(nullptr);
    if (!graph_->ReadsInput(i)) continue;
    ASSIGN_OR_RETURN(const std::span<const float> given, data_->Values(batch, i));
    ASSIGN_OR_RETURN(batch_inputs_.back(), copies_.inputs.Expect(i, given));
    copies_.inputs.Send(i);
  }
  batch_targets_.clear();
  for (size_t h = 0; h < heads_.size() && with_targets; ++h) {
    batch_targets_.push_back(nullptr);
    if (!heads_[h].has_loss || !has_losses()) continue;
    ASSIGN_OR_RETURN(batch_targets_.back(),
                     copies_.targets.Expect(h, batch.targets[heads_[h].target].values));
    copies_.targets.Send(h);
  }
  return absl::OkStatus();
}

}  // namespace paracord
