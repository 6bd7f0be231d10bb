#include "cli/kubernetes_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

bool IsLabelName(std::string_view name) {
  constexpr size_t kBytesMax = 63;
  const auto is_end = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  const auto within = [&](char c) { return is_end(c) || c == '-' || c == '.' || c == '_'; };
  return !name.empty() && name.size() <= kBytesMax && is_end(name.front()) && is_end(name.back()) &&
         std::ranges::all_of(name, within);
}

}  // namespace

bool IsObjectName(std::string_view name) {
  constexpr size_t kBytesMax = 253;
  const auto within = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  };
  const std::vector<std::string> words = absl::StrSplit(std::string(name), '.');
  return name.size() <= kBytesMax && std::ranges::all_of(name, within) &&
         std::ranges::none_of(words, [](const std::string& word) {
           return word.empty() || word.front() == '-' || word.back() == '-';
         });
}

bool IsLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return IsLabelName(key);
  return IsObjectName(key.substr(0, slash)) && IsLabelName(key.substr(slash + 1));
}

bool IsLabelValue(std::string_view value) { return value.empty() || IsLabelName(value); }

}  // namespace paracord
