// Finds the known name that is nearest to a wrong one, for the "did you mean" in messages about
// unknown keys, flags and names. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paracord {

// Returns a known name with which `wrong` begins and which a "_" follows, as "batch" in
// "batch_size"; else the known name with the least edit distance (insert, delete, replace, swap
// neighbours; case is ignored), the first of equally near ones; "" if none is near.
std::string NearestName(std::string_view wrong, std::span<const std::string_view> known);

// Returns "; did you mean `batch`?". If no name is near, returns "; there is: a, b" with all names,
// or
// "" if there are none or too many. Names may come from a file: common/one_line.h makes them safe
// to print, and cuts them off.
std::string NearestHint(std::string_view wrong, std::span<const std::string_view> known);

std::string JoinNames(std::span<const std::string_view> names);  // "a, b"

}  // namespace paracord
