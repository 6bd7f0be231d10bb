// The order in which a job declares the columns of its data. A program is given them in this order,
// and nlohmann::json sorts the keys of objects: where that makes another order, the source's key
// "order" says in which they stand. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kColumnOrderKey[] = "order";

// Writes the order into each source of a job's text that is read by objects of named files
// (`features`, `labels` and `weights` of arrays), unless it says one itself. All sources have that
// of `data.train`, of a mix that of its first source, because their columns are told apart by name.
void NoteColumnOrder(const KeyOrder& order, nlohmann::json& job);

// Has `order` say what it says of the value that a setting puts in the place `key`.
void SetKeyOrder(const std::string& key, const KeyOrder& of_value, KeyOrder& order);

// Reads the names of the object that a source has under `key`: in the order that the fields of its
// "order" list, which must be each once, or else sorted.
std::vector<std::string> ReadOrderedNames(JsonFields& order, const std::string& key,
                                          const nlohmann::json& object);

// Removes the order from a source, for models to which the names alone matter.
void EraseColumnOrder(nlohmann::json& source);

}  // namespace paracord
