#include "cli/file_roles.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paracord {

bool IsTestFile(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(path.substr(path.rfind('/') + 1));
  return absl::StrContains(name, "test") || absl::StrContains(name, "valid");
}

std::string NameOfArray(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  std::vector<std::string> words = absl::StrSplit(stem, absl::ByAnyChar("_-."));
  std::erase_if(words, [](const std::string& word) {
    return word == "train" || word == "test" || word == "valid" || word == "validation";
  });
  return absl::StrJoin(words, "_");
}

}  // namespace paracord
