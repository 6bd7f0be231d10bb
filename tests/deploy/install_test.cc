// Tests the files that cmake --install installs, and their use by shells and man.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/shell.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

const std::string kPath = "PATH=" PARACORD_BIN_DIR ":$PATH\n";

// Returns bash's completions of the last of `words`.
std::vector<std::string> Completed(const std::vector<std::string>& words) {
  std::string line =
      kPath + "bash -c 'source " PARACORD_SOURCE_DIR "/deploy/completion/paracord; COMP_WORDS=(";
  for (const std::string& word : words) line += "\"" + word + "\" ";
  line += ") COMP_CWORD=" + std::to_string(words.size() - 1) +
          "; compopt() { :; }; _paracord; printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
  return absl::StrSplit(RunShell(line).said, '\n', absl::SkipEmpty());
}

TEST_CASE("installation honours prefix and DESTDIR, and units name the programs there") {
  const TestDirectory directory;
  const std::string root = directory.path();
  const ShellResult installed =
      RunShell("DESTDIR=" + root + " cmake --install " PARACORD_BIN_DIR "/.. --prefix /opt/cord");
  INFO(installed.said);
  REQUIRE(installed.code == 0);
  size_t others = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string().substr(root.size());
    others += path != "/opt" && !absl::StartsWith(path, "/opt/cord") ? 1 : 0;
  }
  CHECK(others == 0);
  for (const std::string file :
       {"bin/paracord", "bin/paracord-ps", "bin/paracord-worker", "bin/paracord-coordinator",
        "lib/systemd/system/paracord-ps@.service", "lib/sysusers.d/paracord.conf",
        "share/man/man1/paracord.1.gz", "share/man/man1/paracord-launch.1.gz",
        "share/man/man1/paracord-worker.1.gz", "share/paracord/paracord.sbatch",
        "share/bash-completion/completions/paracord-ps", "share/zsh/site-functions/_paracord",
        "share/doc/paracord/README.md", "share/doc/paracord/docs/job.md"}) {
    INFO(file);
    CHECK(std::filesystem::exists(root + "/opt/cord/" + file));
  }
  CHECK(RunShell(root + "/opt/cord/bin/paracord --version").code == 0);
  const std::string ps = RunShell("cat " + root + "/opt/cord/lib/systemd/system/*ps@*").said;
  CHECK(absl::StrContains(ps, "ExecStart=/opt/cord/bin/paracord-ps "));
}

// libcurl alone would load thirty libraries on each start of a program.
TEST_CASE("a start of a program loads no library that only object stores need") {
  for (const std::string program :
       {"paracord", "paracord-ps", "paracord-worker", "paracord-coordinator"}) {
    const ShellResult loaded =
        RunShell("LD_TRACE_LOADED_OBJECTS=1 " PARACORD_BIN_DIR "/" + program);
    INFO(program << ": " << loaded.said);
    CHECK(absl::StrContains(loaded.said, "libgrpc++"));
    CHECK_FALSE(absl::StrContains(loaded.said, "libcurl"));
    CHECK_FALSE(absl::StrContains(loaded.said, "libkrb5"));
    CHECK_FALSE(absl::StrContains(loaded.said, "libhdf5"));
  }
}

TEST_CASE("each command and daemon has a page whose language man understands") {
  const bool lint = RunShell("command -v mandoc").code == 0;
  for (const std::string program :
       {"paracord", "paracord train", "paracord init", "paracord launch", "paracord validate",
        "paracord status", "paracord evaluate", "paracord predict", "paracord export",
        "paracord checkpoint", "paracord convert", "paracord compute", "paracord-ps",
        "paracord-worker", "paracord-coordinator"}) {
    CAPTURE(program);
    const ShellResult page = RunShell(kPath + program + " --help=man");
    REQUIRE(page.code == 0);
    CHECK(absl::StrContains(page.said, ".SH NAME\n"));
    // The page has each flag of --help, with escaped hyphens.
    const std::string words = RunShell(kPath + program + " --help=words").said;
    const std::string shown = absl::StrReplaceAll(page.said, {{"\\-", "-"}});
    for (const absl::string_view line : absl::StrSplit(words, '\n')) {
      INFO(line);
      CHECK(absl::StrContains(shown, line.substr(0, line.find('\t'))));
    }
    if (!lint) continue;
    CHECK(RunShell(kPath + program + " --help=man | mandoc -T lint -W error").said == "");
  }
}

TEST_CASE("bash completes commands, flags and files by what the programs say") {
  using Words = std::vector<std::string>;
  CHECK(Completed({"paracord", "la"}) == Words{"launch"});
  CHECK(Completed({"paracord", "train", "--fr"}) == Words{"--fresh"});
  CHECK(Completed({"paracord", "launch", "--ho"}) == Words{"--hosts"});
  CHECK(Completed({"paracord", "checkpoint", "v"}) == Words{"verify"});
  CHECK(Completed({"paracord-ps", "--shared"}) == Words{"--shared-memory"});
  const Words dirs = Completed({"paracord", "train", "--dir", PARACORD_SOURCE_DIR "/examples/fl"});
  CHECK(dirs == Words{PARACORD_SOURCE_DIR "/examples/flights"});
  const Words files = Completed({"paracord", "validate", PARACORD_SOURCE_DIR "/READ"});
  CHECK(files == Words{PARACORD_SOURCE_DIR "/README.md"});
}

TEST_CASE("zsh completes commands, flags and files by what the programs say") {
  if (RunShell("command -v zsh").code != 0) {
    WARN("skipped: there is no zsh (package zsh)");
    return;
  }
  // The script is a terminal in which a user types each line and Tab.
  const TestDirectory directory;
  const std::string script = directory.path() + "/script";
  std::ofstream(script) << R"(
zmodload zsh/zpty
zpty z 'zsh -f -i'
await() {
  local all= part i
  for i in {1..400}; do
    while zpty -r -t z part; do all+=$part; done
    [[ $all == *$1* ]] && return 0
    sleep 0.05
  done
  print -r -- "in vain awaited: $1, there was ${(V)all}"
  return 1
}
zpty -w z "PS1=; fpath=($1/deploy/completion \$fpath); autoload -U compinit; compinit -u -D; cd $1"
zpty -w z "setopt nobeep; PATH=$2:\$PATH; print REA''DY"
await READY || exit 1
code=0
completes() {
  zpty -w -n z "$1"$'\t'
  await "$2" || code=1
  zpty -w -n z $'\x15'
}
completes 'paracord la' 'launch'
completes 'paracord train --fr' '--fresh'
completes 'paracord checkpoint v' 'verify'
completes 'paracord-ps --shared' '--shared-memory'
completes 'paracord train --dir examples/fli' 'examples/flights'
completes 'paracord validate READ' 'README.md'
exit $code
)";
  const ShellResult ran =
      RunShell("timeout 120 zsh -f " + script + " " PARACORD_SOURCE_DIR " " PARACORD_BIN_DIR);
  CHECK(ran.said == "");
  CHECK(ran.code == 0);
}

}  // namespace
}  // namespace paracord
