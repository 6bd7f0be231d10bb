#include "worker/model/keras_listed.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "config/keras_class.h"
#include "worker/model/keras_calls.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kLayersMax = 10'000;

// A member that must be a string; "" if it is not.
std::string StringAt(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

// "Conv2D" gives "conv2d", as Keras names a layer that has no name.
std::string DefaultName(const std::string& class_name, size_t index) {
  std::string name;
  for (const char c : class_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return index == 0 ? name : absl::StrCat(name, "_", index);
}

// An operation of Keras 3 has the module keras.src.ops.*; one of Keras 2 is a TFOpLambda.
absl::Status RecogniseOperation(const json& layer, LayerSpec& spec) {
  const std::string module = StringAt(layer, "module");
  if (module.starts_with("keras.src.ops") || module.starts_with("keras.ops")) {
    spec.operation = true;
  } else if (spec.class_name == "TFOpLambda" || spec.class_name == "SlicingOpLambda") {
    const std::string function = StringAt(spec.config, "function");
    const std::string operation = OperationOfKeras2(function);
    if (function == "__operators__.eq" || function == "__operators__.ne") {
      return InvalidModel(absl::StrCat("layer \"", spec.name, "\" (", spec.class_name,
                                       "): Keras 2 does not write what == and != compare with; use "
                                       "tf.math.equal or tf.math.not_equal in the model"));
    }
    if (operation.empty()) {
      return InvalidModel(absl::StrCat("layer \"", spec.name, "\" (", spec.class_name,
                                       "): function \"", function,
                                       "\" is not supported; supported: ", SupportedOfKeras2()));
    }
    spec.class_name = operation;
    spec.operation = true;
    spec.config = json::object();
  }
  return absl::OkStatus();
}

// Fills `spec` as far as it goes.
absl::Status ReadLayer(const json& layer, size_t index, const std::set<std::string>& taken,
                       LayerSpec& spec) {
  const std::string place = absl::StrCat("layers[", index, "]");
  spec.config = json::object();
  spec.name = place;
  if (!layer.is_object()) return InvalidModel(absl::StrCat(place, " must be an object"));
  const auto config = layer.find("config");
  const bool has_config = config != layer.end() && config->is_object();
  std::string name = StringAt(layer, "name");  // Functional
  if (name.empty() && has_config) name = StringAt(*config, "name");
  if (!name.empty() && taken.count(name) == 0) spec.name = name;
  spec.class_name = KerasClass(layer);
  if (spec.class_name.empty()) return InvalidModel(absl::StrCat(place, " has no class_name"));
  if (!has_config) {
    return InvalidModel(absl::StrCat(place, " (", spec.class_name, ") has no config object"));
  }
  spec.config = *config;
  if (name.empty()) spec.name.clear();
  for (size_t i = 0; spec.name.empty(); ++i) {  // written by hand
    const std::string free = DefaultName(spec.class_name, i);
    if (taken.count(free) == 0) spec.name = free;
  }
  // Names become those of variables, and of tensors in files.
  if (spec.name.find_first_of("\n\r\t\"") != std::string::npos || spec.name.size() > 1024) {
    return InvalidModel(absl::StrCat(place, " (", spec.class_name, ") has an unusable name"));
  }
  if (!name.empty() && taken.count(name) != 0) {
    return InvalidModel(absl::StrCat("two layers have the name \"", name, "\""));
  }
  return RecogniseOperation(layer, spec);
}

}  // namespace

absl::Status InvalidModel(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", what));
}

bool IsModel(const std::string& class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

absl::StatusOr<std::vector<Listed>> ReadLayers(const json& config,
                                               std::vector<std::string>& problems) {
  const auto layers = config.find("layers");
  if (layers == config.end() || !layers->is_array() || layers->empty()) {
    return InvalidModel("config.layers must be a list of layers");
  }
  if (layers->size() > kLayersMax)
    return InvalidModel(absl::StrCat("has more than ", kLayersMax, " layers"));
  std::vector<Listed> read;
  std::set<std::string> taken;
  for (size_t i = 0; i < layers->size(); ++i) {
    Listed layer{{}, &(*layers)[i]};
    const absl::Status status = ReadLayer(*layer.whole, i, taken, layer.spec);
    if (!status.ok()) {
      layer.spec.unusable = true;
      const std::string problem(status.message());
      const bool known = std::find(problems.begin(), problems.end(), problem) != problems.end();
      if (!known) problems.push_back(problem);  // an inner model may be read twice
    }
    taken.insert(layer.spec.name);
    read.push_back(std::move(layer));
  }
  return read;
}

std::optional<Listed> ModelOfSteps(const LayerSpec& layer, bool keras2) {
  if (layer.class_name != "TimeDistributed" || layer.unusable) return std::nullopt;
  const auto within = layer.config.find("layer");
  if (within == layer.config.end() || !within->is_object()) return std::nullopt;
  const auto config = within->find("config");
  if (config == within->end() || !config->is_object()) return std::nullopt;
  Listed model{{KerasClass(*within), layer.name, *config}, &*within};
  if (!IsModel(model.spec.class_name)) return std::nullopt;
  const std::string name = StringAt(*config, "name");
  if (!keras2 && !name.empty()) absl::StrAppend(&model.spec.name, "/", name);
  return model;
}

absl::Status DistributeOverSteps(bool trains, LayerSpec& layer) {
  if (layer.operation) {
    return absl::InvalidArgumentError(
        "is an operation on tensors, which a model within a TimeDistributed cannot have: make it "
        "a layer, as Multiply()");
  }
  json outer = {{"trainable", trains}};
  if (layer.config.contains("dtype")) outer["dtype"] = layer.config["dtype"];
  layer.config.erase("name");
  outer["layer"] = {{"class_name", layer.class_name}, {"config", std::move(layer.config)}};
  layer.config = std::move(outer);
  layer.class_name = "TimeDistributed";
  return absl::OkStatus();
}

}  // namespace paracord
