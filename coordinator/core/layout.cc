#include "coordinator/core/layout.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

// Returns the address of ps `index` if the address of ps 0 has its number at the end of the first
// label of its host, like pods of a StatefulSet; nullopt otherwise.
std::optional<std::string> AddressLike(const std::string& first, uint32_t index) {
  if (absl::StartsWith(first, "unix:")) return std::nullopt;
  const size_t label = std::min(first.find_first_of(".:"), first.size());
  constexpr char kNumber[] = "-0";
  const size_t digits = sizeof(kNumber) - 1;
  if (label < digits || first.compare(label - digits, digits, kNumber) != 0) return std::nullopt;
  return absl::StrCat(first.substr(0, label - 1), index, first.substr(label));
}

}  // namespace

std::optional<Layout> Promoted(const Layout& layout, std::span<const Standing> ps,
                               bool unprepared) {
  Layout next = layout;
  bool any = false;
  for (size_t p = 0; p < layout.holders.size(); ++p) {
    if (!ps[layout.holders[p]].lost) continue;
    const uint32_t second = layout.SecondOf(p);
    if (second == kNobody || ps[second].lost || !ps[second].takes) return std::nullopt;
    if (!ps[second].prepared && !unprepared) return std::nullopt;
    next.holders[p] = second;
    next.seconds[p] = kNobody;
    any = true;
  }
  if (!any) return std::nullopt;
  ++next.version;
  return next;
}

std::optional<Layout> Without(const Layout& layout, const std::vector<bool>& stays) {
  Layout next = layout;
  for (size_t p = 0; p < layout.holders.size(); ++p) {
    const uint32_t second = layout.SecondOf(p);
    if (second == kNobody) continue;
    if (!stays[layout.holders[p]] && stays[second]) next.holders[p] = second;
    if (stays[layout.holders[p]] != stays[second]) next.seconds[p] = kNobody;
  }
  if (next == layout) return std::nullopt;
  if (next.holders != layout.holders) ++next.version;
  return next;
}

absl::StatusOr<std::vector<std::string>> AddressesFor(uint32_t count,
                                                      const std::vector<std::string>& now,
                                                      const std::vector<std::string>& told,
                                                      const std::vector<std::string>& given) {
  std::vector<std::string> addresses = now;
  addresses.resize(std::min<size_t>(count, now.size()));
  const size_t fresh = count - addresses.size();
  if (told.size() > fresh) {
    return absl::InvalidArgumentError(absl::StrCat("--ps-address: ", told.size(), " are given for ",
                                                   fresh, " ps that the job does not have"));
  }
  for (const std::string& address : told) addresses.push_back(address);
  while (addresses.size() < count) {
    const auto index = static_cast<uint32_t>(addresses.size());
    if (index < given.size()) {
      addresses.push_back(given[index]);
      continue;
    }
    std::optional<std::string> address = AddressLike(now.front(), index);
    if (!address.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("nobody knows the address of ps:", index, ": give it with --ps-address"));
    }
    addresses.push_back(*std::move(address));
  }
  std::set<std::string> seen;
  for (const std::string& address : addresses) {
    if (seen.insert(address).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("--ps-address: two ps would be at ", address,
                                                   ": each needs an address of its own"));
  }
  return addresses;
}

}  // namespace paracord
