// Tests which packages of the one list deploy/Containerfile installs.
#include <catch2/catch.hpp>
#include <string>

#include "deploy/shell.h"

namespace paracord {
namespace {

// Runs a line in deploy/, and returns the sorted lines that it prints.
std::string LinesInDeploy(const std::string& line) {
  const ShellResult ran = RunShell("cd " PARACORD_SOURCE_DIR "/deploy && { " + line + "; } | sort");
  REQUIRE(ran.code == 0);
  REQUIRE_FALSE(ran.said.empty());
  return ran.said;
}

// Returns what the program of awk that comes first or second in the Containerfile chooses.
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
