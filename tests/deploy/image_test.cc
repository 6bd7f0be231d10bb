// Tests which packages of the list deploy/packages the Containerfile installs.
#include <catch2/catch.hpp>
#include <string>

#include "deploy/shell.h"

namespace paracord {
namespace {

// Runs a shell line in deploy/. Returns its sorted output.
std::string LinesInDeploy(const std::string& line) {
  const ShellResult ran = RunShell("cd " PARACORD_SOURCE_DIR "/deploy && { " + line + "; } | sort");
  REQUIRE(ran.code == 0);
  REQUIRE_FALSE(ran.said.empty());
  return ran.said;
}

// Returns the choice of the first or second awk program in the Containerfile.
std::string ChosenBy(const std::string& which) {
  return LinesInDeploy(
      "awk \"$(sed -n \"s/.*awk '\\(.*\\)' .packages).*/\\1/p\" Containerfile | sed -n " + which +
      "p)\" packages");
}

TEST_CASE("the image has every library that the programs need, and compiles with what is left") {
  CHECK(ChosenBy("1") ==
        LinesInDeploy("grep ' programs' packages | grep -o '^[a-z][^ ]*-dev '  | tr -d ' '"));
  CHECK(ChosenBy("2") == LinesInDeploy("grep ' programs' packages | grep -o '^[a-z][^ ]*' | "
                                       "grep -v -e '-dev$' -e '^dataset' -e '^ccache'"));
}

}  // namespace
}  // namespace paracord
