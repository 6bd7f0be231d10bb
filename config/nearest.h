// "Did you mean": the known name nearest to a wrong one, for messages about unknown keys, flags and
// names. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paracord {

// By edit distance (insert, delete, replace, swap neighbours; case is ignored); "" when nothing is
// near. Of equally near names, the first.
std::string NearestName(std::string_view wrong, std::span<const std::string_view> known);

// "; did you mean `batch`?", or what there is when nothing is near and the list is short.
std::string NearestHint(std::string_view wrong, std::span<const std::string_view> known);

std::string JoinNames(std::span<const std::string_view> names);  // "a, b"

}  // namespace paracord
