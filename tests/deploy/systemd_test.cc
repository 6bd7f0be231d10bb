// Tests the systemd units with systemd's own check, and against the exit codes in docs/operate.md.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/shell.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

const std::vector<std::string> kUnits = {"paracord-ps@", "paracord-worker@",
                                         "paracord-coordinator"};

std::string UnitText(const std::string& unit) {
  std::stringstream text;
  text << std::ifstream(PARACORD_SOURCE_DIR "/deploy/systemd/" + unit + ".service").rdbuf();
  return text.str();
}

// Returns the words after `key`, whose line may continue after backslashes.
std::set<std::string> Words(const std::string& text, const std::string& key) {
  const std::string joined = absl::StrReplaceAll(text, {{"\\\n", " "}});
  for (const absl::string_view line : absl::StrSplit(joined, '\n')) {
    if (!absl::StartsWith(line, key + "=")) continue;
    return absl::StrSplit(line.substr(key.size() + 1), ' ', absl::SkipEmpty());
  }
  return {};
}

TEST_CASE("units start a daemon again after exit codes from 128 on and signals, and else never") {
  std::set<std::string> never;
  for (int code = 1; code < 128; ++code) never.insert(absl::StrCat(code));
  for (const std::string& unit : kUnits) {
    CAPTURE(unit);
    const std::string text = UnitText(unit);
    // A daemon restarts on failure, but not after 0, nor after 143, its exit code on SIGTERM.
    CHECK(Words(text, "Restart") == std::set<std::string>{"on-failure"});
    CHECK(Words(text, "RestartPreventExitStatus") == never);
    CHECK(Words(text, "SuccessExitStatus") == std::set<std::string>{"143"});
    CHECK(Words(text, "RestartForceExitStatus") == std::set<std::string>{"143"});
  }
}

TEST_CASE("systemd-analyze finds nothing wrong with the units, and little that they expose") {
  if (RunShell("command -v systemd-analyze").code != 0) {
    WARN("skipped: there is no systemd-analyze (package systemd)");
    return;
  }
  const TestDirectory directory;
  for (const std::string& unit : kUnits) {
    CAPTURE(unit);
    const std::string path = directory.path() + "/" + unit + ".service";
    std::ofstream(path) << absl::StrReplaceAll(UnitText(unit),
                                               {{"/usr/bin/", PARACORD_BIN_DIR "/"}});
    const ShellResult verified = RunShell("systemd-analyze verify --man=no " + path);
    CHECK(verified.said == "");
    CHECK(verified.code == 0);
    const ShellResult exposed =
        RunShell("systemd-analyze security --no-pager --offline=true --threshold=30 " + path);
    INFO(exposed.said);
    CHECK(exposed.code == 0);
    CHECK(absl::StrContains(exposed.said, "Overall exposure level"));
  }
}

}  // namespace
}  // namespace paracord
