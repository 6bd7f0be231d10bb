#include "config/job_settings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/utf8.h"
#include "config/column_order.h"
#include "config/limits.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns the member `name` of an object, created if missing, or an element of a list; null if the
// list has no such element.
json* Below(json& value, const std::string& name) {
  if (!value.is_array()) return &value[name];
  size_t index = 0;
  return absl::SimpleAtoi(name, &index) && index < value.size() ? &value[index] : nullptr;
}

void Apply(const std::string& setting, json& job, KeyOrder& order, Problems& problems) {
  const auto problem = [&](const std::string& what) {
    problems.Add("--set", absl::StrCat(JsonExcerpt(setting), " ", what));
  };
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::vector<std::string> names = absl::StrSplit(key, '.');
  const bool named = std::none_of(names.begin(), names.end(),
                                  [](const std::string& name) { return name.empty(); });
  if (names.size() > size_t{kJobDepthMax}) return problem("is nested too deeply");
  if (Utf8Prefix(setting) < setting.size()) return problem("is not UTF-8");
  if (equals == std::string::npos || !named) {
    return problem("must be KEY=VALUE, such as optimizer.learning_rate=0.01");
  }
  json* at = &job;
  std::string path;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    absl::StrAppend(&path, i == 0 ? "" : ".", names[i]);
    at = Below(*at, names[i]);
    if (at == nullptr) return problem(absl::StrCat("cannot be set: there is no ", path));
    if (at->is_null()) *at = json::object();
    if (at->is_string() && (path == "optimizer" || path == "loss")) *at = {{"name", *at}};
    if (!at->is_structured()) {
      return problem(absl::StrCat("cannot be set: ", path, " is ", JsonExcerpt(*at)));
    }
  }
  json* const place = Below(*at, names.back());
  if (place == nullptr) return problem(absl::StrCat("cannot be set: there is no ", key));
  const std::string text = setting.substr(equals + 1);
  KeyOrder of_value;
  absl::StatusOr<json> value = ParseJson(text, kJobBytesMax, kJobDepthMax, &of_value);
  if (value.ok()) SetKeyOrder(key, of_value, order);
  *place = value.ok() ? *std::move(value) : json(text);
  const bool says = !place->is_null();
  if (key == "epochs" && says) job.erase("steps");
  if (key == "steps" && says) job.erase("epochs");
}

}  // namespace

void ApplySettings(std::span<const std::string> settings, json& job, KeyOrder& order,
                   Problems& problems) {
  if (!job.is_object()) return;  // the reader of the job reports it
  for (const std::string& setting : settings) Apply(setting, job, order, problems);
}

}  // namespace paracord
