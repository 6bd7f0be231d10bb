// Reads the data of a job without a reader: formats, mixes of sources, and paths, made absolute.
// The reader of a format checks the format's other keys. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// Relative paths start here: at the directory of the job file. A canonical job has none, since its
// paths are absolute.
using BaseDirectory = std::optional<std::filesystem::path>;

// Makes a path absolute, or all paths in lists and objects. A problem names the key.
void MakeAbsolute(nlohmann::json& value, const BaseDirectory& base, const std::string& key,
                  Problems& problems);

// Reads a single source, {"format": ..., ...}, or a mix {"mix": [{"weight": 3, "format": ..., ...},
// ...]}, which gets the format "mix". Returns nullopt and notes a problem if the format is unknown.
std::optional<DataSpec> ReadDataSpec(const nlohmann::json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems);

// Copies to `data.test` and `data.predict` of a job each key that `data.train` has and they lack,
// if the formats are equal. A key is copied whole, and an explicit null prevents the copy. Never
// copied are `part` and the order of columns, and mixes neither give nor take keys. A source that
// names files of its own takes no file names. A text source without a vocabulary takes the training
// text's. Idempotent.
void InheritData(nlohmann::json& job);

// A path or pattern (data/file_glob.h) in a source, and its key: "files" or "mix[1].features".
struct SourcePath {
  std::string key;
  std::string path;
};
// Returns all paths that a canonical source names.
std::vector<SourcePath> PathsOf(const DataSpec& source);

// Removes the paths from a canonical source. Two sources are equal afterwards if at most the places
// of their files differ; the fingerprint says whether the files do.
void ErasePaths(nlohmann::json& source);

}  // namespace paracord
