#include "config/nearest.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/one_line.h"

namespace paracord {
namespace {

constexpr size_t kShownNameMax = 100;  // a longer "name" is no misspelling of anything
constexpr size_t kListMax = 12;

// Returns the restricted Damerau-Levenshtein distance.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_previous(b.size() + 1);
  std::vector<size_t> previous(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_previous.swap(previous);
    previous.swap(current);
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

}  // namespace

std::string NearestName(std::string_view wrong, std::span<const std::string_view> known) {
  if (wrong.empty() || wrong.size() > kShownNameMax) return "";
  const std::string lower = absl::AsciiStrToLower(std::string(wrong));
  for (const std::string_view name : known) {  // "batch_size" of "batch"
    if (name.size() > 2 && lower.starts_with(std::string(name) + "_")) return std::string(name);
  }
  std::string_view best;
  size_t best_distance = lower.size() / 3 + 2;  // a match must be nearer
  for (std::string_view name : known) {
    const size_t distance = Distance(lower, absl::AsciiStrToLower(std::string(name)));
    // A short name is not near if all of its letters would have to change.
    if (distance >= best_distance || distance >= std::max(lower.size(), name.size())) continue;
    best_distance = distance;
    best = name;
  }
  return std::string(best);
}

std::string JoinNames(std::span<const std::string_view> names) {
  std::string joined;
  for (std::string_view name : names) {
    if (!joined.empty()) joined += ", ";
    joined += OneLine(name, kShownNameMax);
  }
  return joined;
}

std::string NearestHint(std::string_view wrong, std::span<const std::string_view> known) {
  const std::string nearest = NearestName(wrong, known);
  if (!nearest.empty())
    return absl::StrCat("; did you mean `", OneLine(nearest, kShownNameMax), "`?");
  if (known.empty() || known.size() > kListMax) return "";
  return absl::StrCat("; there is: ", JoinNames(known));
}

}  // namespace paracord
