// Finds the known name nearest to a wrong one, for the "did you mean" in messages about unknown
// keys, flags and names. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paracord {

// Returns a known name that stands at the beginning of `wrong` before a "_", as "batch" in
// "batch_size"; else the nearest name by edit distance (insert, delete, replace, swap neighbours;
// case is ignored), and the first of equally near ones; "" if none is near.
std::string NearestName(std::string_view wrong, std::span<const std::string_view> known);

// Returns "; did you mean `batch`?"; if no name is near, the list of all names if it is short, else
// "". Names, which may come from a file, are shown as OneLine shows them, and cut.
std::string NearestHint(std::string_view wrong, std::span<const std::string_view> known);

std::string JoinNames(std::span<const std::string_view> names);  // "a, b"

}  // namespace paracord
