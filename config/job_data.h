// Reads the data of a job as far as no reader is needed: formats, mixes of sources, and the paths
// in them, which become absolute. A format's other keys are checked by its reader. Pure.
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

// Reads one source, {"format": ..., ...}, or several, {"mix": [{"weight": 3, "format": ..., ...},
// ...]}, which get the format "mix". Returns nullopt and notes a problem if there is no such
// format.
std::optional<DataSpec> ReadDataSpec(const nlohmann::json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems);

// Gives `data.test` and `data.predict` of a job's text each key that they lack and `data.train`
// has, if both are read by the same format. A key is taken as a whole, and null in place of a value
// keeps it away. Never taken are `part` and the order of columns, and nothing is taken from or for
// a mix. Where a source names files of its own, it takes none of the others'. A text that says
// nothing of its vocabulary has that of the training text. Twice does the same as once.
void InheritData(nlohmann::json& job);

// A path in a source, which may be a pattern (data/file_glob.h), and its key: "files" or
// "mix[1].features".
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
