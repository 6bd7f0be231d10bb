// The order in which a job declares the columns of its data: a program receives the columns in this
// order. nlohmann::json sorts the keys of objects. So if the declared order is another one, the key
// "order" of a data source lists the names. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kColumnOrderKey[] = "order";

// Writes "order" into each data source of a job that names arrays in objects (`features`, `labels`,
// `weights`), has no "order", and whose order is not the sorted one. All sources get the same order
// of names: first the names in `data.train`, as the job's text declares them (`order`), then names
// that only `data.test` has, then others.
void NoteColumnOrder(const KeyOrder& order, nlohmann::json& job);

// Adds to `order` the order of the keys in a value, `of_value`, that a setting
// (config/job_settings.h) gives to the job's key `key`, such as "data.train". The keys of the value
// come before keys that `order` has for the same object.
void SetKeyOrder(const std::string& key, const KeyOrder& of_value, KeyOrder& order);

// Returns the keys of `object`, the value of a source's key `key`, in the order that the source's
// "order" lists under `key`, or sorted if it lists none. If the list does not have each key once,
// adds a problem to `order`, and returns the sorted keys.
std::vector<std::string> ReadOrderedNames(JsonFields& order, const std::string& key,
                                          const nlohmann::json& object);

// Removes "order" from a source, for models that find columns by name.
void EraseColumnOrder(nlohmann::json& source);

}  // namespace paracord
