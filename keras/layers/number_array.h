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

// A number, or a list of lists of as many; true counts as 1. nullopt: it is something else.
std::optional<NumberArray> ReadNumberArray(const nlohmann::json& value);

// What Keras 3 has written as {"class_name": "__numpy__", "config": {"value": ...}}, or with
// "__tensor__"; null if it is something else.
const nlohmann::json* ArrayValue(const nlohmann::json& argument);

}  // namespace paracord
