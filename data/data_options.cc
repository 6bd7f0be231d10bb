#include "data/data_options.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "data/data_file.h"
#include "data/file_glob.h"
#include "data/record_index.h"

namespace paracord {
namespace {

constexpr uint64_t kLinesBytesMax = uint64_t{256} << 20;

bool IsStrings(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& entry) { return entry.is_string(); });
}

}  // namespace

std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key) {
  const nlohmann::json* value = fields.FindValue(key);
  if (value == nullptr) {
    fields.Problem(key, "is missing");
  } else if (value->is_string()) {
    return {value->get<std::string>()};
  } else if (IsStrings(*value)) {
    return value->get<std::vector<std::string>>();
  } else {
    fields.Problem(key, "must be a path or a list of paths");
  }
  return {};
}

absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    ASSIGN_OR_RETURN(const std::vector<std::string> some, ExpandGlob(files, pattern));
    paths.insert(paths.end(), some.begin(), some.end());
  }
  files.Expect(paths);
  return paths;
}

std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key) {
  const nlohmann::json* value = fields.FindValue(key);
  if (value == nullptr) return {};
  if (IsStrings(*value)) return value->get<std::vector<std::string>>();
  fields.Problem(key, absl::StrCat("must be a list of strings, is ", JsonExcerpt(*value)));
  return {};
}

std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key) {
  std::vector<std::string> classes = ReadStrings(fields, key);
  std::set<std::string> seen;
  for (const std::string& name : classes) {
    if (!seen.insert(name).second) {
      fields.Problem(key, absl::StrCat("holds ", Quoted(name), " twice"));
    }
  }
  return classes;
}

absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file,
                   OpenDataFile(files, path, {.bytes_max = kLinesBytesMax}));
  if (file->size() > kLinesBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is ", file->size(), " bytes long, more than ", kLinesBytesMax));
  }
  const absl::StatusOr<uint64_t> begin = TextBegin(*file);
  if (!begin.ok()) return At(path, begin.status());
  std::string text(static_cast<size_t>(file->size() - *begin), '\0');
  RETURN_IF_ERROR(file->ReadAt(*begin, text));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t size = end > at && text[end - 1] == '\r' ? end - 1 - at : end - at;
    lines.push_back(text.substr(at, size));
    at = end + 1;
  }
  if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  return lines;
}

absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<std::string> words, ReadLines(files, path));
  for (size_t i = 0; i < words.size(); ++i) {
    if (Utf8Prefix(words[i]) == words[i].size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, " row ", i, ": ", Quoted(words[i]),
                                                   " is not UTF-8; save the file as UTF-8"));
  }
  return words;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kBytesMax = 40;
  const bool is_long = text.size() > kBytesMax;
  std::string_view kept = text.substr(0, kBytesMax);
  std::string quoted;
  if (Utf8Prefix(text) == text.size()) {
    kept = kept.substr(0, Utf8Prefix(kept));  // no part of a character
    quoted = TextOf(nlohmann::json(std::string(kept)));
  } else {
    quoted = absl::StrCat("\"", absl::CHexEscape({kept.data(), kept.size()}), "\"");
  }
  if (is_long) quoted.insert(quoted.size() - 1, "...");
  return quoted;
}

}  // namespace paracord
