// Mixed precision in a graph: what a layer of a mixed policy reads and gives is rounded to the
// policy's type, and so are the gradients on their way; sums and variables are float32.
#include "common/status_macros.h"
#include "worker/model/graph.h"

namespace paracord {
namespace {

// Keras scales a loss so that gradients stay within the range of float16; what is left of the type
// is its digits.
Precision OfGradient(Precision precision) {
  return precision == Precision::kFloat16 ? Precision::kFloat16Digits : precision;
}

}  // namespace

bool Graph::RoundsVariables(const Node& node) const {
  return node.precision != Precision::kFloat32 && node.layer->rounds_variables();
}

absl::Status Graph::ReserveRounded() {
  if (!rounded_.empty()) return absl::OkStatus();
  rounded_.resize(variables_.size());
  for (const Node& node : nodes_) {
    if (node.layer == nullptr || !RoundsVariables(node)) continue;
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      Rounded& rounded = rounded_[node.first_variable + v];
      rounded.precision = node.precision;
      const int64_t n = VariableElements(variables_[node.first_variable + v]);
      if (rounded.data == nullptr) {
        ASSIGN_OR_RETURN(rounded.data, ops_.Allocate(n));
      }
    }
  }
  return absl::OkStatus();
}

void Graph::RoundParameter(size_t variable, const GraphCall& call) {
  if (rounded_.empty() || rounded_[variable].data == nullptr) return;
  const Rounded& rounded = rounded_[variable];
  const int64_t n = VariableElements(variables_[variable]);
  ops_.Affine(n, 1, 0, call.parameters[variable], rounded.data.get());
  ops_.Round(rounded.precision, n, rounded.data.get());
  parameters_[variable] = rounded.data.get();
}

void Graph::RoundValue(Value value, int64_t batch) {
  const Node& node = nodes_[value];
  if (node.precision == Precision::kFloat32) return;
  ops_.Round(node.precision, batch * Elements(node.shape), storages_[node.storage].data.get());
}

void Graph::RoundGradient(Value value, int64_t batch) {
  const Node& node = nodes_[value];
  if (node.precision == Precision::kFloat32) return;
  ops_.Round(OfGradient(node.precision), batch * Elements(node.shape), Gradient(value));
}

void Graph::RoundVariableGradients(const Node& node, std::span<float* const> d_parameters) {
  if (!RoundsVariables(node)) return;
  for (size_t v = 0; v < d_parameters.size(); ++v) {
    if (d_parameters[v] == nullptr) continue;
    ops_.Round(OfGradient(node.precision), VariableElements(variables_[node.first_variable + v]),
               d_parameters[v]);
  }
}

}  // namespace paracord
