// An array of numbers among the arguments of a call. Pure.
#pragma once

#include <optional>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord {

struct NumberArray {
  std::vector<int64_t> shape;  // none: one number
  std::vector<float> values;   // row by row
};

// A number, a list of lists as Keras 2 writes an array, or Keras 3's {"class_name": "__numpy__",
// "config": {"value": ...}}, and "__tensor__" likewise; nullopt: it is something else.
std::optional<NumberArray> ReadNumberArray(const nlohmann::json& argument);

// Whether Keras 3 has written an array anywhere in there.
bool HoldsArray(const nlohmann::json& arguments);

}  // namespace paracord
