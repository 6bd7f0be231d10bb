// Failpoints obey PARACORD_FAILPOINTS. A misspelt setting ends the process.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

struct Ended {
  int code = 0;
  std::string said;
};

// Runs this test program with a setting of failpoints and without tests.
Ended Start(const std::string& setting) {
  const std::string command =
      absl::StrCat("PARACORD_FAILPOINTS='", setting,
                   "' " PARACORD_BIN_DIR "/common_test 'no test has this name' 2>&1");
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) {
    ended.said.append(buffer, size);
  }
  ended.code = WEXITSTATUS(pclose(pipe));
  return ended;
}

TEST_CASE("a process whose failpoints are misspelt ends with 2 and says which") {
  for (const std::string wrong : {"a", "a=", "a=die", "a=kill@x", "a=kill@0", "a=stall:soon"}) {
    const Ended ended = Start("files.sync=error@7;" + wrong);
    INFO(wrong);
    CHECK(ended.code == 2);
    CHECK(ended.said.find(absl::StrCat("PARACORD_FAILPOINTS: \"", wrong, "\" is not NAME=")) == 0);
  }
  for (const std::string right : {"", "a=kill", "a=stop@3;b=stall:20", "a=error@1;"}) {
    INFO(right);
    CHECK(Start(right).said.find("PARACORD_FAILPOINTS") == std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
