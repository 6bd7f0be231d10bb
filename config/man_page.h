// Writes pages of the manual in the language of man(7).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paracord {

struct ManPage {
  std::string name;      // "paracord train"
  std::string summary;   // the program's purpose, one sentence without a full stop
  std::string synopsis;  // what follows `name` on a command line
  std::string description;
  std::vector<std::pair<std::string, std::string>> options;  // "--ps N" and its help
  std::vector<std::string> see_also;                         // other pages, such as "paracord-ps"
};

std::string ManPageText(const ManPage& page);

}  // namespace paracord
