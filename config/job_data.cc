#include "config/job_data.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "config/column_order.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr char kMix[] = "mix";
constexpr char kSomewhere[] = "(files)";  // in place of paths
constexpr char kVocabularyFrom[] = "vocabulary_from";

// The keys of each format that hold paths: a string, or lists and objects of strings. In any
// format, at any depth, `vocabulary_file` holds one, too.
struct Format {
  std::string_view name;
  std::vector<std::string> path_keys;
};
constexpr std::string_view kNestedPathKey = "vocabulary_file";
const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {{"csv", {"files"}},
                                              {"idx", {"features", "labels", "weights"}},
                                              {"images", {"folder", "list"}},
                                              {"npy", {"features", "labels", "weights"}},
                                              {"npz", {"file"}},
                                              {"text", {"files", kVocabularyFrom}},
                                              {"tfrecord", {"files"}}};
  return formats;
}

// Makes the paths under `kNestedPathKey` absolute, at any depth.
void MakeNestedAbsolute(json& value, const BaseDirectory& base, const std::string& key,
                        Problems& problems) {
  if (!value.is_structured()) return;
  for (const auto& [name, entry] : value.items()) {
    const std::string path =
        absl::StrCat(key, value.is_array() ? "[" : ".", name, value.is_array() ? "]" : "");
    if (value.is_object() && name == kNestedPathKey) {
      MakeAbsolute(entry, base, path, problems);
    } else {
      MakeNestedAbsolute(entry, base, path, problems);
    }
  }
}

std::string KeyOf(const std::string& outer, const std::string& name, const json& within) {
  if (within.is_array()) return absl::StrCat(outer, "[", name, "]");
  return outer.empty() ? name : absl::StrCat(outer, ".", name);
}

// Adds every string in a value of a path key.
void AddPaths(const json& value, const std::string& key, std::vector<SourcePath>& paths) {
  if (value.is_string()) return paths.push_back({key, value.get<std::string>()});
  if (!value.is_structured()) return;
  for (const auto& [name, entry] : value.items()) AddPaths(entry, KeyOf(key, name, value), paths);
}

// Adds the paths under `kNestedPathKey`, at any depth.
void AddNestedPaths(const json& value, const std::string& key, std::vector<SourcePath>& paths) {
  if (!value.is_structured()) return;
  for (const auto& [name, entry] : value.items()) {
    const bool is_path = value.is_object() && name == kNestedPathKey;
    (is_path ? AddPaths : AddNestedPaths)(entry, KeyOf(key, name, value), paths);
  }
}

void AddPathsOf(const std::string& format, const json& options, const std::string& key,
                std::vector<SourcePath>& paths) {
  if (format == kMix) {
    const json entries = options.value("mix", json::array());
    for (size_t i = 0; i < entries.size(); ++i) {
      AddPathsOf(entries[i].value("format", ""), entries[i], absl::StrCat(key, "mix[", i, "]."),
                 paths);
    }
    return;
  }
  for (const Format& each : Formats()) {
    if (each.name != format) continue;
    for (const std::string& path_key : each.path_keys) {
      if (options.contains(path_key)) AddPaths(options[path_key], key + path_key, paths);
    }
  }
  std::vector<SourcePath> nested;
  AddNestedPaths(options, "", nested);
  for (SourcePath& path : nested) paths.push_back({key + path.key, std::move(path.path)});
}

void EraseNestedPaths(json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains(kNestedPathKey)) value[kNestedPathKey] = kSomewhere;
  for (json& entry : value) EraseNestedPaths(entry);
}

// Reads the sources of a mix. The reader checks the weights.
std::optional<DataSpec> ReadMix(const json& value, const std::string& path,
                                const BaseDirectory& base, Problems& problems) {
  DataSpec spec{kMix, value};
  spec.options.erase("format");
  json& entries = spec.options["mix"];
  if (!entries.is_array() || entries.empty()) {
    problems.Add(absl::StrCat(path, ".mix"),
                 absl::StrCat("must be a list of sources, is ", JsonExcerpt(entries)));
    return std::nullopt;
  }
  bool all = true;
  for (size_t i = 0; i < entries.size(); ++i) {
    std::optional<DataSpec> source =
        ReadDataSpec(entries[i], absl::StrCat(path, ".mix[", i, "]"), base, problems);
    all = all && source.has_value();
    if (!source) continue;
    entries[i] = std::move(source->options);
    entries[i]["format"] = source->format;
  }
  return all ? std::optional(spec) : std::nullopt;
}

bool IsOneSource(const json& data, const char* key) {
  const auto found = data.find(key);
  return found != data.end() && found->is_object() && !found->contains(kMix);
}

void Inherit(const json& train, json& source) {
  const json format = train.value("format", json());
  if (source.value("format", format) != format) return;
  std::set<std::string> kept = {"part", kColumnOrderKey};
  for (const Format& each : Formats()) {
    if (format != each.name) continue;
    std::set<std::string> places(each.path_keys.begin(), each.path_keys.end());
    places.erase(kVocabularyFrom);
    const bool own =
        std::ranges::any_of(places, [&](const std::string& key) { return source.contains(key); });
    if (own) kept.insert(places.begin(), places.end());
  }
  for (const auto& [key, value] : train.items()) {
    if (!kept.contains(key) && !source.contains(key)) source[key] = value;
  }
  if (format != "text") return;
  const json vocabulary = source.value("vocabulary", json());
  const bool said = vocabulary.is_array() || source.contains(std::string(kNestedPathKey)) ||
                    source.contains(kVocabularyFrom);
  if (!said && train.contains("files")) source[kVocabularyFrom] = train["files"];
}

}  // namespace

void MakeAbsolute(json& value, const BaseDirectory& base, const std::string& key,
                  Problems& problems) {
  if (value.is_structured() && !value.empty()) {
    for (const auto& [name, entry] : value.items()) {
      MakeAbsolute(
          entry, base,
          absl::StrCat(key, value.is_array() ? "[" : ".", name, value.is_array() ? "]" : ""),
          problems);
    }
    return;
  }
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return problems.Add(key, absl::StrCat("must be a path, is ", JsonExcerpt(value)));
  }
  const std::string path = value.get<std::string>();
  if (!base && !path.starts_with('/') && SchemeOf(path).empty()) {
    return problems.Add(key, absl::StrCat("must be an absolute path, is ", JsonExcerpt(value)));
  }
  value = PathIn(base ? base->string() : "/", path);
}

std::optional<DataSpec> ReadDataSpec(const json& value, const std::string& path,
                                     const BaseDirectory& base, Problems& problems) {
  JsonFields fields(value, path, problems);
  if (!value.is_object()) return std::nullopt;
  const json* format_name = fields.Find("format");
  const bool is_mix = format_name != nullptr && *format_name == kMix;
  if (value.contains("mix") && (format_name == nullptr || is_mix)) {
    return ReadMix(value, path, base, problems);
  }
  std::vector<std::string_view> names;
  for (const Format& format : Formats()) names.push_back(format.name);
  DataSpec spec;
  if (format_name == nullptr) fields.Problem("format", "is missing");
  fields.OneOf("format", names, spec.format);
  if (spec.format.empty()) return std::nullopt;
  spec.options = value;
  spec.options.erase("format");
  for (const Format& format : Formats()) {
    if (format.name != spec.format) continue;
    for (const std::string& path_key : format.path_keys) {
      const auto entry = spec.options.find(path_key);
      if (entry == spec.options.end()) continue;  // the reader checks missing keys
      MakeAbsolute(*entry, base, absl::StrCat(path, ".", path_key), problems);
    }
    MakeNestedAbsolute(spec.options, base, path, problems);
  }
  return spec;
}

void InheritData(json& job) {
  if (!job.is_object() || !job.contains("data") || !job["data"].is_object()) return;
  json& data = job["data"];
  if (!IsOneSource(data, "train")) return;
  for (const char* const heir : {"test", "predict"}) {
    if (IsOneSource(data, heir)) Inherit(data["train"], data[heir]);
  }
}

std::vector<SourcePath> PathsOf(const DataSpec& source) {
  std::vector<SourcePath> paths;
  AddPathsOf(source.format, source.options, "", paths);
  return paths;
}

void ErasePaths(json& source) {
  if (source.contains("mix")) {
    for (json& entry : source["mix"]) ErasePaths(entry);
    return;
  }
  for (const Format& format : Formats()) {
    if (source["format"] != format.name) continue;
    for (const std::string& key : format.path_keys) {
      if (source.contains(key)) source[key] = kSomewhere;
    }
  }
  EraseNestedPaths(source);
}

}  // namespace paracord
