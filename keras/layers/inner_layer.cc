#include "keras/layers/inner_layer.h"

#include "absl/strings/str_cat.h"
#include "config/keras_class.h"

namespace paracord {
namespace {

constexpr int kDepthMax = 8;

}  // namespace

using nlohmann::json;

std::unique_ptr<Layer> MakeInner(LayerConfig& outer, const char* key, const std::string& name,
                                 const json& spec) {
  int depth = 0;
  for (const json* at = &spec; at != nullptr && depth <= kDepthMax; ++depth) {
    const auto config = at->find("config");
    const bool deeper = config != at->end() && config->is_object() && config->contains("layer") &&
                        (*config)["layer"].is_object();
    at = deeper ? &(*config)["layer"] : nullptr;
  }
  if (depth > kDepthMax) {
    outer.Fail(key, "has too many layers within layers");
    return nullptr;
  }
  LayerConfig config(KerasClass(spec), name, spec["config"], outer.keras2());
  config.SetMode(outer.mode());
  absl::StatusOr<std::unique_ptr<Layer>> layer = MakeLayer(config, /*operation=*/false);
  if (layer.ok()) return *std::move(layer);
  outer.Fail(key, std::string(layer.status().message()));
  return nullptr;
}

json SpecOf(LayerConfig& config, const char* key) {
  const json* value = config.Value(key);
  if (value != nullptr && value->is_object() && value->contains("config") &&
      (*value)["config"].is_object()) {
    return *value;
  }
  config.Fail(key, "must be a layer");
  return {{"config", json::object()}};
}

std::string NameIn(const json& spec) {
  const auto name = spec["config"].find("name");
  return name != spec["config"].end() && name->is_string() ? name->get<std::string>() : "layer";
}

}  // namespace paracord
