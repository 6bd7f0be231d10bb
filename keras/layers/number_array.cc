#include "keras/layers/number_array.h"

#include <algorithm>

namespace paracord {
namespace {

using nlohmann::json;

// Returns false if the value is ragged or not numeric. `axis` is the depth of `value` within the
// array.
bool Read(const json& value, size_t axis, NumberArray& array) {
  if (value.is_number() || value.is_boolean()) {
    array.values.push_back(value.is_boolean() ? (value.get<bool>() ? 1.f : 0.f)
                                              : value.get<float>());
    return axis == array.shape.size();
  }
  if (!value.is_array() || value.empty()) return false;
  const auto size = static_cast<int64_t>(value.size());
  if (axis == array.shape.size()) {
    if (!array.values.empty()) return false;
    array.shape.push_back(size);
  }
  return array.shape[axis] == size && std::all_of(value.begin(), value.end(), [&](const json& e) {
           return Read(e, axis + 1, array);
         });
}

}  // namespace

std::optional<NumberArray> ReadNumberArray(const json& value) {
  NumberArray array;
  if (!Read(value, 0, array)) return std::nullopt;
  return array;
}

const json* ArrayValue(const json& argument) {
  if (!argument.is_object()) return nullptr;
  const auto name = argument.find("class_name"), config = argument.find("config");
  if (name == argument.end() || (*name != "__numpy__" && *name != "__tensor__")) return nullptr;
  if (config == argument.end() || !config->is_object()) return nullptr;
  const auto value = config->find("value");
  return value == config->end() ? nullptr : &*value;
}

}  // namespace paracord
