// Writes pages of the manual in the language of man(7).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paracord {

struct ManPage {
  std::string name;      // "paracord train"
  std::string summary;   // the first sentence of what it does
  std::string synopsis;  // what comes after the name
  std::string description;
  std::vector<std::pair<std::string, std::string>> options;  // "--ps N", what it is for
  std::vector<std::string> see_also;                         // "paracord-ps"
};

std::string ManPageText(const ManPage& page);

}  // namespace paracord
