// Runs a command of `paracord` in the test's process.
#pragma once

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace paracord {

using Command = int (*)(Args, std::ostream&, std::ostream&);

struct Ran {
  int code;
  std::string out, err;
};

inline Ran Run(Command command, const std::vector<std::string>& args) {
  std::ostringstream out, err;
  const int code = command(args, out, err);
  return {code, out.str(), err.str()};
}

// Returns whether `text` contains `part`. A failed check prints both.
inline bool Has(const std::string& text, const std::string& part) {
  UNSCOPED_INFO("in: " << text << "\nlooked for: " << part);
  return text.find(part) != std::string::npos;
}

}  // namespace paracord
