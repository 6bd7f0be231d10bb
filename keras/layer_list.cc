#include "keras/layer_list.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "config/keras_class.h"
#include "keras/calls.h"
#include "keras/layers/layer_config.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kLayersMax = 10'000;

// The string member `key`; "" if missing or of another type.
std::string StringAt(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

// Keras' name for an unnamed layer: "conv2d" for "Conv2D".
std::string DefaultName(const std::string& class_name, size_t index) {
  std::string name;
  for (const char c : class_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return index == 0 ? name : absl::StrCat(name, "_", index);
}

// Names become names of variables, and of tensors in files.
bool Usable(const std::string& name) {
  return name.find_first_of("\n\r\t\"") == std::string::npos && name.size() <= 1024;
}

// True for a Keras 3 Cast to the tensor's own type: Keras passes the tensor on unchanged, with its
// mask.
bool HandsOn(const json& layer, const LayerSpec& spec) {
  if (spec.class_name != "Cast") return false;
  const json::json_pointer tensor("/inbound_nodes/0/args/0/config/dtype");
  return layer.contains(tensor) && layer[tensor].is_string() &&
         layer[tensor] == spec.config.value("dtype", json()) && layer["inbound_nodes"].size() == 1;
}

// An operation of Keras 3 has the module keras.src.ops.*; one of Keras 2 is a TFOpLambda.
absl::Status RecogniseOperation(const json& layer, LayerSpec& spec) {
  const std::string module = StringAt(layer, "module");
  if (module.starts_with("keras.src.ops") || module.starts_with("keras.ops")) {
    spec.operation = true;
    if (HandsOn(layer, spec)) {
      spec.class_name = "Identity";
      spec.operation = false;
      spec.config = json::object();
    }
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
                                       "): function \"", function, "\" is not supported",
                                       kExportInstead, "; supported: ", SupportedOfKeras2()));
    }
    spec.class_name = operation;
    spec.operation = true;
    spec.config = json::object();
  }
  return absl::OkStatus();
}

// The keys of an RNN layer that belong to the layer of its cell.
constexpr const char* kOfRnn[] = {
    "return_sequences", "return_state", "go_backwards",         "stateful",
    "unroll",           "time_major",   "zero_output_for_mask", "batch_input_shape"};

// Makes {"class_name": "LSTM"} of an LSTMCell, with the cell's config.
absl::StatusOr<json> LayerOfCell(const json& cell, bool trains) {
  static constexpr const char* kCells[] = {"LSTMCell", "GRUCell", "SimpleRNNCell"};
  const auto config = cell.find("config");
  std::string name = KerasClass(cell);
  if (std::find(std::begin(kCells), std::end(kCells), name) == std::end(kCells) ||
      config == cell.end() || !config->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("key \"cell\": ", name.empty() ? "what it has" : name,
                     " is not supported; supported: LSTMCell, GRUCell, SimpleRNNCell, and a list "
                     "of these"));
  }
  const std::string own = StringAt(*config, "name");
  if (!Usable(own)) return absl::InvalidArgumentError("key \"cell\": has an unusable name");
  name.resize(name.size() - std::string_view("Cell").size());
  json layer = {{"class_name", name}, {"config", *config}};
  layer["config"]["cell_name"] = own;
  if (!trains) layer["config"]["trainable"] = false;
  return layer;
}

// Rewrites an RNN as the layer of its cell. Stacked cells become consecutive layers; the last gets
// the RNN's options.
absl::Status ReadRnn(LayerSpec& spec) {
  const json rnn = spec.config, cell = rnn.value("cell", json());
  const bool trains = rnn.value("trainable", json()) != false;
  if (!cell.is_object()) return absl::InvalidArgumentError("key \"cell\": must be a cell");
  std::vector<json> cells{cell};
  const bool stacked = KerasClass(cell) == "StackedRNNCells";
  if (stacked) {
    const json within = cell.value("config", json());
    const json list = within.is_object() ? within.value("cells", json()) : json();
    cells.clear();
    for (const json& one : list) cells.push_back(one);
    for (const char* key : {"return_state", "go_backwards"}) {
      if (rnn.value(key, json()) != true) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("key \"", key, "\": is not supported with several cells"));
    }
  }
  json layers = json::array();
  for (const json& one : cells) {
    absl::StatusOr<json> layer = LayerOfCell(one.is_object() ? one : json::object(), trains);
    if (!layer.ok()) return layer.status();
    json& config = (*layer)["config"];
    if (stacked) {
      config["name"] =
          absl::StrCat(StringAt(cell["config"], "name"), "/", StringAt(config, "name"));
      config["cell_name"] = "";
      config["return_sequences"] = true;
    }
    layers.push_back(*std::move(layer));
  }
  if (layers.empty()) return absl::InvalidArgumentError("key \"cell\": has no cells");
  json& last = layers.back()["config"];
  last.erase("return_sequences");
  for (const char* key : kOfRnn) {
    if (rnn.contains(key)) last[key] = rnn[key];
  }
  spec.class_name = stacked ? "Sequential" : layers[0]["class_name"].get<std::string>();
  spec.config = stacked ? json{{"layers", std::move(layers)}} : std::move(last);
  if (stacked && rnn.contains("batch_input_shape")) {
    spec.config["batch_input_shape"] = rnn["batch_input_shape"];
    spec.config["layers"].back()["config"].erase("batch_input_shape");
  }
  return absl::OkStatus();
}

// Fills `spec` as far as possible. `next` has, by class, the next number for naming an unnamed
// layer.
absl::Status ReadLayer(const json& layer, size_t index, const std::set<std::string>& taken,
                       std::map<std::string, size_t>& next, LayerSpec& spec) {
  const std::string place = absl::StrCat("layers[", index, "]");
  spec.config = json::object();
  spec.name = place;
  if (!layer.is_object()) return InvalidModel(absl::StrCat(place, " must be an object"));
  const auto config = layer.find("config");
  const bool has_config = config != layer.end() && config->is_object();
  std::string name = StringAt(layer, "name");  // in Functional models
  if (name.empty() && has_config) name = StringAt(*config, "name");
  if (!name.empty() && taken.count(name) == 0) spec.name = name;
  spec.class_name = KerasClass(layer);
  if (spec.class_name.empty()) return InvalidModel(absl::StrCat(place, " has no class_name"));
  if (!has_config) {
    return InvalidModel(absl::StrCat(place, " (", spec.class_name, ") has no config object"));
  }
  spec.config = *config;
  if (name.empty()) spec.name.clear();
  while (spec.name.empty()) {  // the file was written by hand
    const std::string free = DefaultName(spec.class_name, next[spec.class_name]++);
    if (taken.count(free) == 0) spec.name = free;
  }
  if (!Usable(spec.name)) {
    return InvalidModel(absl::StrCat(place, " (", spec.class_name, ") has an unusable name"));
  }
  if (!name.empty() && taken.count(name) != 0) {
    return InvalidModel(absl::StrCat("two layers have the name \"", name, "\""));
  }
  if (spec.class_name == "RNN") {
    const absl::Status read = ReadRnn(spec);
    if (read.ok()) return read;
    return InvalidModel(
        absl::StrCat("layer \"", spec.name, "\" (RNN): ", std::string(read.message())));
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
  std::map<std::string, size_t> next;
  for (size_t i = 0; i < layers->size(); ++i) {
    Listed layer{{}, &(*layers)[i]};
    const absl::Status status = ReadLayer(*layer.whole, i, taken, next, layer.spec);
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
