#include "keras/early_keras2.h"

#include <string>
#include <utility>

namespace paracord {
namespace {

using nlohmann::json;

bool IsEarly(const json& model) {
  const auto version = model.find("keras_version");
  if (version == model.end() || !version->is_string()) return false;
  const std::string& text = version->get_ref<const std::string&>();
  return text.starts_with("2.0.") || text.starts_with("2.1.");
}

bool HasListConfig(const json& object) {
  const auto config = object.find("config");
  return config != object.end() && config->is_array() &&
         object.value("class_name", json()) == "Sequential";
}

bool IsOldGru(const json& object, bool early) {
  const auto config = object.find("config");
  const json name = object.value("class_name", json());
  return early && (name == "GRU" || name == "GRUCell") && config != object.end() &&
         config->is_object() && !config->contains("reset_after");
}

bool HoldsOldForm(const json& value, bool early) {
  if (!value.is_structured()) return false;
  if (value.is_object() && (HasListConfig(value) || IsOldGru(value, early))) return true;
  for (const json& each : value) {
    if (HoldsOldForm(each, early)) return true;
  }
  return false;
}

void Change(json& value, bool early) {
  if (!value.is_structured()) return;
  if (value.is_object() && HasListConfig(value)) {
    json layers = std::move(value["config"]);
    value["config"] = {{"layers", std::move(layers)}};
  }
  if (value.is_object() && IsOldGru(value, early)) value["config"]["reset_after"] = false;
  for (json& each : value) Change(each, early);
}

}  // namespace

std::optional<json> FromEarlyKeras2(const json& model) {
  if (!model.is_object()) return std::nullopt;
  const bool early = IsEarly(model);
  if (!HoldsOldForm(model, early)) return std::nullopt;
  json changed = model;
  Change(changed, early);
  return changed;
}

}  // namespace paracord
