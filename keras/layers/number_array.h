// Reads arrays of numbers among the arguments of a layer's call. Pure.
#pragma once

#include <optional>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord {

struct NumberArray {
  std::vector<int64_t> shape;  // empty: a single number
  std::vector<float> values;   // row-major
};

// Reads a number, or nested lists that form an array; true counts as 1. Nullopt for anything else.
std::optional<NumberArray> ReadNumberArray(const nlohmann::json& value);

// If `argument` is an array as Keras 3 writes it, {"class_name": "__numpy__" or "__tensor__",
// "config": {"value": ...}}, returns the value, which ReadNumberArray reads; otherwise null.
const nlohmann::json* ArrayValue(const nlohmann::json& argument);

}  // namespace paracord
