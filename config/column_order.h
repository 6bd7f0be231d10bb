// The order in which a job declares the columns of its data: a program receives the columns in this
// order. nlohmann::json sorts the keys of objects; where the declared order differs from sorted,
// the source's key "order" lists the names. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kColumnOrderKey[] = "order";

// Writes "order" into each source of a job that names arrays in objects (`features`, `labels`,
// `weights`) and has no "order". Columns are matched by name, so every source takes the order of
// `data.train`, and a mix the order of its first source.
void NoteColumnOrder(const KeyOrder& order, nlohmann::json& job);

// Adds to `order` the key order of a value that a setting puts in the place `key`.
void SetKeyOrder(const std::string& key, const KeyOrder& of_value, KeyOrder& order);

// Reads the names in the object that a source has under `key`: in the order that "order" lists, or
// sorted without a list. A list must have each name once; otherwise a problem is noted.
std::vector<std::string> ReadOrderedNames(JsonFields& order, const std::string& key,
                                          const nlohmann::json& object);

// Removes "order" from a source, for models that know columns by name alone.
void EraseColumnOrder(nlohmann::json& source);

}  // namespace paracord
