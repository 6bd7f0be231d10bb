#include "worker/keras_json.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kLayersMax = 100'000;

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", what));
}

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

absl::StatusOr<LayerSpec> ReadLayer(const json& layer, size_t index,
                                    const std::set<std::string>& taken) {
  const std::string place = absl::StrCat("layers[", index, "]");
  if (!layer.is_object()) return Invalid(absl::StrCat(place, " must be an object"));
  LayerSpec spec;
  spec.class_name = StringAt(layer, "class_name");
  if (spec.class_name.empty()) return Invalid(absl::StrCat(place, " has no class_name"));
  const auto config = layer.find("config");
  if (config == layer.end() || !config->is_object()) {
    return Invalid(absl::StrCat(place, " (", spec.class_name, ") has no config object"));
  }
  spec.config = *config;
  spec.name = StringAt(*config, "name");
  for (size_t i = 0; spec.name.empty(); ++i) {  // written by hand
    const std::string name = DefaultName(spec.class_name, i);
    if (taken.count(name) == 0) spec.name = name;
  }
  // Names become those of variables, and of tensors in files.
  if (spec.name.find_first_of("\n\r\t\"") != std::string::npos || spec.name.size() > 1024) {
    return Invalid(absl::StrCat(place, " (", spec.class_name, ") has an unusable name"));
  }
  if (taken.count(spec.name) != 0) {
    return Invalid(absl::StrCat("two layers have the name \"", spec.name, "\""));
  }
  return spec;
}

// The InputLayer that a Sequential leaves out: Keras 2 writes its shape into the first layer, and a
// model that was never built has none at all (the data has it).
LayerSpec ImpliedInput(const LayerSpec& first, const std::set<std::string>& taken) {
  LayerSpec input{kInputLayer, "input", json::object()};
  for (size_t i = 1; taken.count(input.name) != 0; ++i) input.name = absl::StrCat("input_", i);
  const auto shape = first.config.find("batch_input_shape");
  if (shape != first.config.end()) input.config["batch_input_shape"] = *shape;
  return input;
}

absl::StatusOr<ModelSpec> ReadSequential(const json& config) {
  const auto layers = config.find("layers");
  if (layers == config.end() || !layers->is_array() || layers->empty()) {
    return Invalid("config.layers must be a list of layers");
  }
  if (layers->size() > kLayersMax) return Invalid("has too many layers");
  ModelSpec model;
  std::set<std::string> taken;
  for (size_t i = 0; i < layers->size(); ++i) {
    ASSIGN_OR_RETURN(LayerSpec layer, ReadLayer((*layers)[i], i, taken));
    if (i > 0 && layer.class_name == kInputLayer) {
      return Invalid(absl::StrCat("layer \"", layer.name, "\" (InputLayer) must be the first"));
    }
    taken.insert(layer.name);
    model.layers.push_back(std::move(layer));
  }
  if (model.layers[0].class_name != kInputLayer) {
    model.layers.insert(model.layers.begin(), ImpliedInput(model.layers[0], taken));
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    model.nodes.push_back({i, i == 0 ? std::vector<size_t>() : std::vector<size_t>{i - 1}});
  }
  model.inputs = {0};
  model.outputs = {model.nodes.size() - 1};
  return model;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadKerasModel(const json& model) {
  if (!model.is_object()) return Invalid("must be a JSON object, as model.to_json() writes it");
  const std::string class_name = StringAt(model, "class_name");
  if (class_name != "Sequential") {
    return Invalid(
        absl::StrCat("class_name \"", class_name, "\" is not supported; supported: Sequential"));
  }
  const auto config = model.find("config");
  if (config == model.end() || !config->is_object()) return Invalid("has no config object");
  ASSIGN_OR_RETURN(ModelSpec spec, ReadSequential(*config));
  spec.keras2 = model.contains("keras_version");  // Keras 3 writes no version
  return spec;
}

}  // namespace paracord
