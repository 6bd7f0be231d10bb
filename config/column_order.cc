#include "config/column_order.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr const char* kNamedArrays[] = {"features", "labels", "weights"};

using NamesByKey = std::map<std::string, std::vector<std::string>>;

bool ReadsNamedArrays(const json& source) {
  const auto format = source.find("format");
  return format != source.end() && (*format == "idx" || *format == "npy" || *format == "npz");
}

std::vector<std::string> SortedNames(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : object.items()) names.push_back(name);
  return names;
}

void AddMissing(const std::vector<std::string>& more, std::vector<std::string>& names) {
  for (const std::string& name : more) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
}

// Adds the names under `key` of `source`, and of the sources in its mix, in the order of the text.
void AddNames(const KeyOrder& order, const std::string& source, const std::string& key,
              std::vector<std::string>& names) {
  for (const auto& [path, keys] : order) {
    std::string_view rest = path;
    if (!rest.starts_with(source)) continue;
    rest.remove_prefix(source.size());
    while (rest.starts_with(".mix.")) rest.remove_prefix(4);
    if (rest == "." + key) AddMissing(keys, names);
  }
}

void NoteIn(const NamesByKey& declared, json& source) {
  if (!source.is_object()) return;
  if (const auto mix = source.find("mix"); mix != source.end() && mix->is_array()) {
    for (json& each : *mix) NoteIn(declared, each);
  }
  if (!ReadsNamedArrays(source) || source.contains(kColumnOrderKey)) return;
  json order = json::object();
  for (const auto& [key, known] : declared) {
    const auto object = source.find(key);
    if (object == source.end() || !object->is_object()) continue;
    std::vector<std::string> names = SortedNames(*object);
    std::ranges::stable_sort(names, {}, [&known = known](const std::string& name) {
      return std::ranges::find(known, name);
    });
    if (!std::ranges::is_sorted(names)) order[key] = names;
  }
  if (!order.empty()) source[kColumnOrderKey] = order;
}

}  // namespace

void NoteColumnOrder(const KeyOrder& order, json& job) {
  if (!job.is_object() || !job.contains("data") || !job["data"].is_object()) return;
  NamesByKey declared;
  for (const char* const key : kNamedArrays) {
    for (const char* const source : {"data.train", "data.test"}) {
      AddNames(order, source, key, declared[key]);
    }
  }
  for (json& source : job["data"]) NoteIn(declared, source);
}

void SetKeyOrder(const std::string& key, const KeyOrder& of_value, KeyOrder& order) {
  std::vector<std::string> names = absl::StrSplit(key, '.');
  const auto is_element = [](const std::string& name) {
    return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  std::erase_if(names, is_element);
  for (const auto& [path, keys] : of_value) {
    std::vector<std::string>& known =
        order[absl::StrCat(absl::StrJoin(names, "."), path.empty() ? "" : ".", path)];
    std::vector<std::string> now = keys;
    AddMissing(known, now);
    known = std::move(now);
  }
}

std::vector<std::string> ReadOrderedNames(JsonFields& order, const std::string& key,
                                          const json& object) {
  const std::vector<std::string> names = SortedNames(object);
  const json* const listed = order.FindValue(key);
  if (listed == nullptr) return names;
  json sorted = *listed;
  if (sorted.is_array()) std::sort(sorted.begin(), sorted.end());
  if (sorted == json(names)) return listed->get<std::vector<std::string>>();
  order.Problem(key, absl::StrCat("must list the names of `", key, "`, each once, is ",
                                  JsonExcerpt(*listed)));
  return names;
}

void EraseColumnOrder(json& source) {
  if (!source.is_object()) return;
  source.erase(kColumnOrderKey);
  if (!source.contains("mix")) return;
  for (json& each : source["mix"]) EraseColumnOrder(each);
}

}  // namespace paracord
