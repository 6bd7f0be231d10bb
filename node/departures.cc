#include "node/departures.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace paracord {

bool Departures::Add(Role role, int code, const std::string& reason) {
  return left_.emplace(role, Departure{code, reason}).second;
}

Departures::Departure Departures::Last() const {
  const auto weight = [&](const auto& entry) {
    const auto& [role, departure] = entry;
    return std::tuple(!told_.contains(role), role == Role::kCoordinator, departure.code);
  };
  const auto& [role, last] = *std::ranges::max_element(left_, {}, weight);
  return {last.code, absl::StrCat(RoleName(role), ": ", last.reason)};
}

}  // namespace paracord
