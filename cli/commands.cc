#include "cli/commands.h"

#include "common/one_line.h"

namespace paracord {

int Fail(const std::string& command, absl::string_view why, ExitCode code, std::ostream& err) {
  err << "paracord " << command << ": " << ForTerminal({why.data(), why.size()}) << "\n";
  return static_cast<int>(code);
}

}  // namespace paracord
