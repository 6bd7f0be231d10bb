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

// The directory of the job file, at which relative paths start. Nullopt for a canonical job (one
// that JobToJson wrote), whose paths are absolute.
using BaseDirectory = std::optional<std::filesystem::path>;

// Makes a path absolute, or all paths in a list or object of paths. A problem names the key.
void MakeAbsolute(nlohmann::json& value, const BaseDirectory& base, const std::string& key,
                  Problems& problems);

// Reads a single source, {"format": ..., ...}, or a mix {"mix": [{"weight": 3, "format": ..., ...},
// ...]}, which gets the format "mix". Returns nullopt after a problem, such as an unknown format.
std::optional<DataSpec> ReadDataSpec(const nlohmann::json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems);

// Copies each key of `data.train` that `data.test` or `data.predict` of a job lacks, if that source
// names the same format or none. A key is copied whole, and an explicit null prevents the copy.
// Never copied are `part` and the order of columns, and mixes neither give nor take keys. A source
// that names files of its own takes no file names. A text source without a vocabulary takes the
// vocabulary of the training text. Idempotent.
void InheritData(nlohmann::json& job);

// A path or pattern (data/file_glob.h) in a source, and the key that has it: "files" or
// "mix[1].features".
struct SourcePath {
  std::string key;
  std::string path;
};
// Returns all paths in a source of a canonical job.
std::vector<SourcePath> PathsOf(const DataSpec& source);

// Replaces the paths in a source of a canonical job by one placeholder. Two sources are equal
// afterwards if at most the places of their files differ; the fingerprint says whether the contents
// do.
void ErasePaths(nlohmann::json& source);

}  // namespace paracord
