#include "cli/predict_data.h"

#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "config/unknown_name.h"

namespace paracord {
namespace {

using nlohmann::json;

absl::Status Refuse(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--data: ", why));
}

// Returns the first source of a mix, for all sources have the same columns.
DataSpec FirstOfMix(const DataSpec& mix) {
  DataSpec first;
  first.options = mix.options.at("mix").at(0);
  first.format = first.options.value("format", "");
  first.options.erase("format");
  first.options.erase("weight");
  return first.format == "mix" ? FirstOfMix(first) : first;
}

json Paths(std::span<const std::string> files) {
  json paths = json::array();
  for (const std::string& file : files) paths.push_back(AbsolutePath(file));
  return paths;
}

// Arrays have a file for each input, by its name where the job names inputs.
absl::Status PutArrays(std::span<const std::string> files, json& options) {
  json& features = options["features"];
  if (!features.is_object()) {
    features = Paths(files);
    return absl::OkStatus();
  }
  std::vector<std::string_view> known;
  for (const auto& [name, paths] : features.items()) known.push_back(name);
  json named = json::object();
  for (const std::string& file : files) {
    const size_t equals = file.find('=');
    const std::string name = file.substr(0, equals);
    if (equals == std::string::npos) {
      std::string names;
      for (const auto& [each, paths] : features.items()) {
        absl::StrAppend(&names, names.empty() ? "" : ", ", each);
      }
      return Refuse(
          absl::StrCat(file, ": say of which input, NAME=", file, "; the job has ", names));
    }
    if (!features.contains(name)) {
      return Refuse(absl::StrCat("input \"", name, "\"", NotSupported(name, known)));
    }
    named[name].push_back(AbsolutePath(file.substr(equals + 1)));
  }
  for (const std::string_view name : known) {
    if (!named.contains(std::string(name))) {
      return Refuse(absl::StrCat("input \"", std::string(name), "\" has no file: give ",
                                 std::string(name), "=FILE"));
    }
  }
  features = std::move(named);
  return absl::OkStatus();
}

absl::Status PutFiles(std::span<const std::string> files, DataSpec& spec) {
  json& options = spec.options;
  options.erase("part");
  if (spec.format == "npy" || spec.format == "idx") return PutArrays(files, options);
  if (spec.format == "npz") {
    options["file"] = Paths(files);
  } else if (spec.format == "images") {
    if (files.size() > 1) return Refuse("give one folder of pictures, or one list of their paths");
    options.erase("folder");
    options.erase("list");
    const std::string lower = absl::AsciiStrToLower(files[0]);
    const bool list = lower.ends_with(".txt") || lower.ends_with(".tsv") || lower.ends_with(".csv");
    options[list ? "list" : "folder"] = AbsolutePath(files[0]);
  } else {
    // Keeps the vocabulary of the described files: the model has learnt its token numbers.
    const bool counts = spec.format == "text" && !options.value("vocabulary", json()).is_array() &&
                        !options.contains("vocabulary_file") &&
                        !options.contains("vocabulary_from");
    if (counts && options.contains("files")) options["vocabulary_from"] = options["files"];
    options["files"] = Paths(files);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataSpec> PredictData(const Job& job, std::span<const std::string> files) {
  DataSpec spec = job.predict.has_value() ? *job.predict
                  : job.test.has_value()  ? *job.test
                                          : job.train;
  const char* const key = job.predict.has_value() ? "data.predict" : "data.test";
  if (files.empty() && !job.predict.has_value() && !job.test.has_value()) {
    return Refuse("is missing: the job has neither data.predict nor data.test");
  }
  if (files.empty() && spec.format == "mix") {
    return Refuse(absl::StrCat(key, " is a mix, whose records have no order: name the files"));
  }
  if (spec.format == "mix") spec = FirstOfMix(spec);
  if (!files.empty()) RETURN_IF_ERROR(PutFiles(files, spec));
  return spec;
}

}  // namespace paracord
