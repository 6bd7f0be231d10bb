// The data of a job, as far as it can be read without a reader: formats, mixes of sources, and the
// paths in them, which become absolute. What else a format takes is checked by its reader. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Where relative paths start: the directory of the job file. A canonical job has none.
using BaseDirectory = std::optional<std::filesystem::path>;

// Of a path, or lists and objects of paths. A problem names the key.
void MakeAbsolute(nlohmann::json& value, const BaseDirectory& base, const std::string& key,
                  Problems& problems);

// One source, {"format": ..., ...}, or several, {"mix": [{"weight": 3, "format": ..., ...}, ...]},
// which get the format "mix". Nothing, and a problem, where there is no such format.
std::optional<DataSpec> ReadDataSpec(const nlohmann::json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems);

// Of a canonical source. Two are the same afterwards if at most their files lie elsewhere: whether
// those hold the same is for the fingerprint to tell.
void ErasePaths(nlohmann::json& source);

}  // namespace paracord
