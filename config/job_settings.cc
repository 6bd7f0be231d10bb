#include "config/job_settings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/utf8.h"
#include "config/limits.h"

namespace paracord {
namespace {

using nlohmann::json;

void Apply(const std::string& setting, json& job, Problems& problems) {
  const auto problem = [&](const std::string& what) {
    problems.Add("--set", absl::StrCat(JsonExcerpt(setting), " ", what));
  };
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::vector<std::string> names = absl::StrSplit(key, '.');
  const bool named = std::none_of(names.begin(), names.end(),
                                  [](const std::string& name) { return name.empty(); });
  if (Utf8Prefix(setting) < setting.size()) return problem("is not UTF-8");
  if (equals == std::string::npos || !named) {
    return problem("must be KEY=VALUE, such as optimizer.learning_rate=0.01");
  }
  json* at = &job;
  std::string path;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    absl::StrAppend(&path, i == 0 ? "" : ".", names[i]);
    at = &(*at)[names[i]];
    if (at->is_null()) *at = json::object();
    if (at->is_string()) *at = {{"name", *at}};
    if (!at->is_object()) {
      return problem(absl::StrCat("cannot be set: ", path, " is ", JsonExcerpt(*at)));
    }
  }
  const std::string text = setting.substr(equals + 1);
  absl::StatusOr<json> value = ParseJson(text, kJobBytesMax, kJobDepthMax);
  (*at)[names.back()] = value.ok() ? *std::move(value) : json(text);
  if (key == "epochs") job.erase("steps");
  if (key == "steps") job.erase("epochs");
}

}  // namespace

void ApplySettings(std::span<const std::string> settings, json& job, Problems& problems) {
  if (!job.is_object()) return;  // said by who reads it
  for (const std::string& setting : settings) Apply(setting, job, problems);
}

}  // namespace paracord
