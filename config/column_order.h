// The order in which a job declares the columns of its data: a program receives the columns in this
// order. nlohmann::json sorts the keys of objects, so if the declared order is not the sorted one,
// the key "order" of a data source lists the names. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kColumnOrderKey[] = "order";

// Writes "order" into each data source of a job that names arrays in objects (`features`, `labels`,
// `weights`), has no "order", and whose order is not the sorted one. Columns are matched by name,
// so all sources get one order: the names in `data.train` (in its first source if it is a mix of
// several), then names that only other sources have.
void NoteColumnOrder(const KeyOrder& order, nlohmann::json& job);

// Adds the key order of a value that a setting (config/job_settings.h) gives to the job's key
// `key`, such as "data.train", to `order`. The keys of the value come before keys that `order` has
// there.
void SetKeyOrder(const std::string& key, const KeyOrder& of_value, KeyOrder& order);

// Reads the names in `object`, which a source has under `key`, in the order that "order" lists, or
// sorted if there is no "order". "order" must have each name once; otherwise `order` records a
// problem.
std::vector<std::string> ReadOrderedNames(JsonFields& order, const std::string& key,
                                          const nlohmann::json& object);

// Removes "order" from a source, for models that know columns by name alone.
void EraseColumnOrder(nlohmann::json& source);

}  // namespace paracord
