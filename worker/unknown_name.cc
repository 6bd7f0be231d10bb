#include "worker/unknown_name.h"

#include "absl/strings/str_cat.h"
#include "common/nearest.h"

namespace paracord {

std::string Listed(std::span<const std::string_view> known) {
  std::string list;
  for (const std::string_view name : known) {
    if (!list.empty()) list += ", ";
    list += name;
  }
  return list;
}

std::string NotSupported(const std::string& wrong, std::span<const std::string_view> known) {
  const std::string near = NearestName(wrong, known);
  return absl::StrCat(" is not supported",
                      near.empty() ? "" : absl::StrCat(" (did you mean \"", near, "\"?)"),
                      "; supported: ", Listed(known));
}

}  // namespace paracord
