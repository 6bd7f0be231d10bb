#include "worker/layers/number_array.h"

#include <algorithm>

namespace paracord {
namespace {

using nlohmann::json;

bool IsArray(const json& value) {
  if (!value.is_object() || !value.contains("config") || !value["config"].is_object()) return false;
  const auto name = value.find("class_name");
  return name != value.end() && (*name == "__numpy__" || *name == "__tensor__");
}

// False: it is ragged, or not of numbers. `axis` is that of `value` within the array.
bool Read(const json& value, size_t axis, NumberArray& array) {
  if (value.is_number()) {
    array.values.push_back(value.get<float>());
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

std::optional<NumberArray> ReadNumberArray(const json& argument) {
  const json* value = &argument;
  if (IsArray(argument)) {
    const auto found = argument["config"].find("value");
    if (found == argument["config"].end()) return std::nullopt;
    value = &*found;
  }
  NumberArray array;
  if (!Read(*value, 0, array)) return std::nullopt;
  return array;
}

bool HoldsArray(const json& arguments) {
  return IsArray(arguments) ||
         (arguments.is_structured() && std::any_of(arguments.begin(), arguments.end(), HoldsArray));
}

}  // namespace paracord
