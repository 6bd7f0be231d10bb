#include "data/file_glob.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

bool IsPattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

}  // namespace

bool IsNoDirectory(const absl::Status& listed) {
  return absl::IsNotFound(listed) || absl::IsFailedPrecondition(listed);
}

absl::StatusOr<std::vector<std::string>> ExpandGlob(Files& files, const std::string& pattern) {
  if (!IsPattern(pattern)) return std::vector<std::string>{pattern};
  // The existing prefixes so far. Each component from the first pattern on multiplies them.
  std::vector<std::string> prefixes{""};
  bool listed = false;
  const std::vector<std::string> components = absl::StrSplit(pattern, '/');
  for (size_t i = 0; i < components.size(); ++i) {
    const std::string& component = components[i];
    const bool last = i + 1 == components.size();
    listed = listed || IsPattern(component);
    std::vector<std::string> next;
    for (const std::string& prefix : prefixes) {
      if (!listed) {
        next.push_back(absl::StrCat(prefix, component, last ? "" : "/"));
        continue;
      }
      const auto names = files.List(prefix.empty() ? "." : prefix);
      // A file matched by an earlier component has nothing below it. A store has no directories;
      // its other errors have another cause.
      if (IsNoDirectory(names.status()) &&
          (absl::IsNotFound(names.status()) || SchemeOf(prefix).empty())) {
        continue;
      }
      RETURN_IF_ERROR(names.status());
      const bool literal = !IsPattern(component) ||
                           std::find(names->begin(), names->end(), component) != names->end();
      for (const std::string& name : *names) {
        const bool matches =
            literal ? name == component : fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0;
        if (matches) next.push_back(absl::StrCat(prefix, name, last ? "" : "/"));
      }
    }
    prefixes = std::move(next);
  }
  if (prefixes.empty()) return absl::NotFoundError(absl::StrCat("no file matches ", pattern));
  std::sort(prefixes.begin(), prefixes.end());
  return prefixes;
}

}  // namespace paracord
