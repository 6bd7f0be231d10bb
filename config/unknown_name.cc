#include "config/unknown_name.h"

#include "absl/strings/str_cat.h"
#include "config/nearest.h"

namespace paracord {

std::string NotSupported(const std::string& wrong, std::span<const std::string_view> known) {
  const std::string near = NearestName(wrong, known);
  return absl::StrCat(" is not supported",
                      near.empty() ? "" : absl::StrCat(" (did you mean \"", near, "\"?)"),
                      "; supported: ", JoinNames(known));
}

}  // namespace paracord
