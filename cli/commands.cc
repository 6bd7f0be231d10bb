#include "cli/commands.h"

namespace paracord {

int Fail(const std::string& command, absl::string_view why, ExitCode code, std::ostream& err) {
  err << "paracord " << command << ": " << why << "\n";
  return static_cast<int>(code);
}

}  // namespace paracord
