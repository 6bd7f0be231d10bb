#include "keras/output_doubts.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/keras_class.h"
#include "config/named_spec.h"
#include "keras/layers/layer_config.h"
#include "keras/losses.h"
#include "keras/model_head.h"

namespace paracord {
namespace {

using nlohmann::json;

// Layers and operations that move numbers, or take means and maxima: probabilities stay
// probabilities.
constexpr std::string_view kPassing[] = {"ActivityRegularization",
                                         "ConvertToTensor",
                                         "Dropout",
                                         "ExpandDims",
                                         "Flatten",
                                         "Identity",
                                         "Permute",
                                         "RepeatVector",
                                         "Reshape",
                                         "SpatialDropout1D",
                                         "SpatialDropout2D",
                                         "SpatialDropout3D",
                                         "Squeeze",
                                         "Transpose"};
constexpr std::string_view kPassingKinds[] = {"Cropping", "Global", "MaxPooling", "AveragePooling"};
constexpr std::string_view kWithActivation[] = {
    "Dense",           "EinsumDense",     "Conv1D",          "Conv2D",
    "Conv3D",          "Conv1DTranspose", "Conv2DTranspose", "DepthwiseConv1D",
    "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D"};
constexpr std::string_view kProbabilities[] = {"sigmoid", "softmax", "hard_sigmoid", "sparsemax",
                                               "sparse_sigmoid"};
constexpr std::string_view kAnyNumbers[] = {
    "linear", "tanh", "relu",  "relu6",    "leaky_relu", "elu",         "selu",
    "gelu",   "silu", "swish", "softplus", "softsign",   "log_softmax", "mish"};

template <size_t n>
bool In(const std::string_view (&list)[n], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// The layer that computed an output's numbers, and the activation applied to them.
struct Source {
  const LayerSpec* layer = nullptr;
  std::string activation = "linear";
  bool one_unit = false;  // for a Dense
  std::string Title() const { return LayerTitle(layer->class_name, layer->name); }
  bool probabilities() const { return In(kProbabilities, activation); }
  bool logits() const { return activation == "linear"; }
  bool any_numbers() const { return In(kAnyNumbers, activation); }
  // Returns "has no activation" or "has the activation \"relu\"".
  std::string Says() const {
    return logits() ? "has no activation" : absl::StrCat("has the activation \"", activation, "\"");
  }
};

// Returns the name of a layer's activation; "" for an unnamed one.
std::string ActivationName(const json& config) {
  const auto value = config.find("activation");
  if (value == config.end() || value->is_null()) return "linear";
  if (value->is_string()) return value->get<std::string>();
  const std::string name = value->is_object() ? KerasClass(*value) : "";
  return name == "ReLU"        ? "relu"
         : name == "LeakyReLU" ? "leaky_relu"
         : name == "Softmax"   ? "softmax"
                               : "";
}

// Returns the name of the activation performed by a layer or operation; "" if none.
std::string ActivationOfLayer(const LayerSpec& layer) {
  if (layer.class_name == "Activation" && !layer.operation) return ActivationName(layer.config);
  if (layer.class_name == "Softmax") return "softmax";
  if (layer.class_name == "Sigmoid" && layer.operation) return "sigmoid";
  if (layer.class_name == "ReLU" || layer.class_name == "Relu") return "relu";
  return "";
}

bool Passes(const LayerSpec& layer) {
  const std::string_view name = layer.class_name;
  return In(kPassing, name) ||
         std::any_of(std::begin(kPassingKinds), std::end(kPassingKinds),
                     [&](std::string_view kind) { return name.starts_with(kind); });
}

// Follows the graph back from a node; nullopt if the meaning of its numbers is unknown.
std::optional<Source> SourceOf(const ModelSpec& model, size_t at) {
  Source source;
  while (true) {
    const NodeSpec& node = model.nodes[at];
    if (node.inputs.empty() || node.output != 0 || node.constant.has_value()) return std::nullopt;
    const LayerSpec* layer = &model.layers[node.layer];
    LayerSpec within;
    const auto inner = layer->config.find("layer");
    if (layer->class_name == "TimeDistributed" && inner != layer->config.end() &&
        inner->is_object()) {
      within = {KerasClass(*inner), layer->name, inner->value("config", json::object())};
      if (!within.config.is_object()) return std::nullopt;
    }
    const LayerSpec& computing = within.class_name.empty() ? *layer : within;
    const std::string own = ActivationOfLayer(computing);
    if (!own.empty()) {
      if (source.layer == nullptr && own != "linear") {
        source.layer = layer;
        source.activation = own;
      }
      // Behind a softmax, the walk goes on to the layer underneath.
      if (source.layer != nullptr && source.activation != "softmax") return source;
    } else if (In(kWithActivation, computing.class_name) && !computing.operation) {
      if (source.layer == nullptr) {
        source.layer = layer;
        source.activation = ActivationName(computing.config);
      }
      source.one_unit =
          computing.class_name == "Dense" && computing.config.value("units", json()) == 1;
      return source;
    } else if (!Passes(computing) || source.layer != nullptr) {
      if (source.layer == nullptr) return std::nullopt;
      return source;
    }
    at = node.inputs[0];
  }
}

bool IsTrue(const NamedSpec& spec, const char* key) {
  const auto value = spec.options.find(key);
  return value != spec.options.end() && *value == true;
}

void LossDoubts(const NamedSpec& loss, const Source& source, std::vector<std::string>& doubts) {
  const LossKind* kind = FindLoss(loss.name);
  if (kind == nullptr) return;
  const bool binary =
      *kind == LossKind::kBinaryCrossentropy || *kind == LossKind::kBinaryFocalCrossentropy;
  const bool categorical = IsSparse(*kind) || *kind == LossKind::kCategoricalCrossentropy ||
                           *kind == LossKind::kCategoricalFocalCrossentropy;
  if (!binary && !categorical && *kind != LossKind::kKlDivergence) return;
  const bool from_logits = IsTrue(loss, "from_logits");
  const char* const wanted = binary ? "sigmoid" : "softmax";
  const auto add = [&](const std::string& text) {
    doubts.push_back(absl::StrCat("loss ", loss.name, ": ", text));
  };
  if (!from_logits && source.any_numbers()) {
    const bool has_option = *kind != LossKind::kKlDivergence;
    add(absl::StrCat(
        "takes probabilities, but ", source.Title(), " ", source.Says(),
        source.logits() ? ", so that its outputs are logits" : "", ": ",
        has_option && source.logits() ? "set \"from_logits\": true in the loss, or " : "",
        "give the model a last activation \"", wanted, "\""));
  }
  if (from_logits && source.probabilities()) {
    add(absl::StrCat("is told \"from_logits\": true, but ", source.Title(), " ", source.Says(),
                     ": leave out one of the two"));
  }
  if (!source.one_unit) return;
  if (source.activation == "softmax") {
    add(absl::StrCat(source.Title(),
                     " has a softmax of one unit, which is 1 whatever it is given: "
                     "use \"sigmoid\" with binary_crossentropy, or a unit for each class"));
  } else if (*kind == LossKind::kCategoricalCrossentropy ||
             *kind == LossKind::kCategoricalFocalCrossentropy) {
    add(absl::StrCat("of the one output of ", source.Title(),
                     " is always 0: use "
                     "binary_crossentropy, or a unit for each class"));
  }
}

// Warns of a metric with thresholds for probabilities on an output of logits.
void MetricDoubts(const NamedSpec& loss, const NamedSpec& metric, const Source& source,
                  std::vector<std::string>& doubts) {
  const bool crossentropy =
      loss.name == "binary_crossentropy" || loss.name == "binary_focal_crossentropy";
  if (!crossentropy || !source.logits()) return;
  static constexpr std::string_view kCounts[] = {"precision",      "recall",
                                                 "true_positives", "false_positives",
                                                 "true_negatives", "false_negatives"};
  const std::string& name = metric.name;
  const bool accuracy =
      name == "binary_accuracy" || ((name == "accuracy" || name == "acc") && source.one_unit);
  const char* const key = accuracy ? "threshold" : In(kCounts, name) ? "thresholds" : "";
  const std::string what = absl::StrCat("metric ", name, ": ");
  if (*key != '\0' && !metric.options.contains(key)) {
    const std::string named = accuracy ? "binary_accuracy" : name;
    doubts.push_back(absl::StrCat(
        what, "compares with 0.5, but ", source.Title(), " ", source.Says(),
        ", so that its outputs are logits: write {\"name\": \"", named, "\", \"", key, "\": 0}"));
  } else if (name == "auc" && !IsTrue(metric, "from_logits")) {
    doubts.push_back(absl::StrCat(what, "takes probabilities, but ", source.Title(), " ",
                                  source.Says(),
                                  ": write {\"name\": \"auc\", \"from_logits\": true}"));
  }
}

}  // namespace

std::vector<std::string> OutputDoubts(const Job& job, const ModelSpec& model) {
  std::vector<std::string> doubts;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const NamedSpec* loss = LossOf(job, model.outputs[i], i);
    const std::optional<Source> source = SourceOf(model, model.outputs[i].node);
    if (loss == nullptr || !source.has_value()) continue;
    std::vector<std::string> own;
    LossDoubts(*loss, *source, own);
    for (const NamedSpec& metric : MetricsOf(job, model, i)) {
      MetricDoubts(*loss, metric, *source, own);
    }
    const bool one = model.outputs.size() == 1;
    for (const std::string& doubt : own) {
      doubts.push_back(one ? doubt
                           : absl::StrCat("output \"", model.outputs[i].name(), "\": ", doubt));
    }
  }
  return doubts;
}

}  // namespace paracord
