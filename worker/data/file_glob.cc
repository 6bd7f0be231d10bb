#include "worker/data/file_glob.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

bool IsPattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandGlob(Files& files, const std::string& pattern) {
  if (!IsPattern(pattern)) return std::vector<std::string>{pattern};
  // Prefixes that exist so far; each component multiplies them.
  std::vector<std::string> prefixes{""};
  const std::vector<std::string> components = absl::StrSplit(pattern, '/');
  for (size_t i = 0; i < components.size(); ++i) {
    const std::string& component = components[i];
    const bool last = i + 1 == components.size();
    std::vector<std::string> next;
    for (const std::string& prefix : prefixes) {
      if (!IsPattern(component)) {
        next.push_back(absl::StrCat(prefix, component, last ? "" : "/"));
        continue;
      }
      const auto names = files.List(prefix.empty() ? "." : prefix);
      // Another component's match may be a file, which has nothing below it.
      if (!names.ok()) continue;
      const bool there = std::find(names->begin(), names->end(), component) != names->end();
      for (const std::string& name : *names) {
        if (there ? name != component : fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) != 0) {
          continue;
        }
        next.push_back(absl::StrCat(prefix, name, last ? "" : "/"));
      }
    }
    prefixes = std::move(next);
  }
  if (prefixes.empty()) return absl::NotFoundError(absl::StrCat("no file matches ", pattern));
  std::sort(prefixes.begin(), prefixes.end());
  return prefixes;
}

}  // namespace paracord
