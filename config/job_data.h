// Reads the data of a job without a reader: formats, mixes of sources, and paths, which become
// absolute. The reader of a format checks the format's other keys. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"

namespace paracord {

// The directory of the job file, at which relative paths start. Nullopt for a canonical job (one
// that JobToJson wrote), whose paths are absolute.
using BaseDirectory = std::optional<std::filesystem::path>;

// Makes `value` (a path, or a list or object of paths) absolute. A problem names the path's key.
void MakeAbsolute(nlohmann::json& value, const BaseDirectory& base, const std::string& key,
                  Problems& problems);

// Reads a single source, {"format": ..., ...}, or a mix {"mix": [{"weight": 3, "format": ..., ...},
// ...]}, which gets the format "mix". Returns nullopt after a problem, such as an unknown format.
std::optional<DataSpec> ReadDataSpec(const nlohmann::json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems);

// Fills in two sources of a job, `data.test` and `data.predict`, from `data.train`: each that names
// the same format or none gets the keys that it lacks. A key is copied whole. A key with the value
// null is not lacking. `part` and the order of columns are not copied. A source that has file names
// of its own gets no file names. A text source without a vocabulary gets the vocabulary of the
// training text. Mixes neither give nor get keys. A second call changes nothing.
void InheritData(nlohmann::json& job);

// A path or pattern (data/file_glob.h) in a source, and its key, such as "files" or
// "mix[1].features".
struct SourcePath {
  std::string key;
  std::string path;
};
// Returns all paths in a source of a canonical job.
std::vector<SourcePath> PathsOf(const DataSpec& source);

// Replaces the paths in a source of a canonical job by a placeholder. Two sources that are equal
// afterwards differ at most in where their files are; the fingerprint says whether the contents
// differ.
void ErasePaths(nlohmann::json& source);

}  // namespace paracord
