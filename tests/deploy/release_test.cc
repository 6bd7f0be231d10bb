// Tests the checks that refuse a release, and that bundled programs run with bundled libraries.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/shell.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("changelog and upgrade page have the version and the protocol that programs say") {
  const std::string said = RunShell(PARACORD_BIN_DIR "/paracord --version").said;
  std::string version, protocol;  // "paracord 0.1.0, protocol 9"
  version = said.substr(9, said.find(',') - 9);
  protocol = said.substr(said.rfind(' ') + 1, said.size() - said.rfind(' ') - 2);
  INFO(said);
  const std::string changes = RunShell("cat " PARACORD_SOURCE_DIR "/CHANGELOG.md").said;
  CHECK(absl::StrContains(changes, absl::StrCat("\n| ", version, " | ", protocol, " |")));
  CHECK(absl::StrContains(changes, absl::StrCat("\n## ", version, "\n")));
  const std::string page = RunShell("cat " PARACORD_SOURCE_DIR "/docs/upgrade-and-backup.md").said;
  CHECK(absl::StrContains(page, absl::StrCat("\n| protocol between daemons | ", protocol, " |")));
}

TEST_CASE("no release is made of a tree with changes, or of a version without an entry") {
  const TestDirectory directory;
  const std::string root = directory.path();
  const auto run = [&](const std::string& line) { return RunShell("cd " + root + "\n" + line); };
  const std::string git = "git -c user.name=test -c user.email=test ";
  REQUIRE(run("mkdir deploy && cp " PARACORD_SOURCE_DIR "/deploy/release deploy && "
              "echo 'project(paracord VERSION 7.1.0 LANGUAGES CXX)' >CMakeLists.txt && "
              "printf '| 7.0.0 | 3 |\\n\\n## 7.0.0\\n' >CHANGELOG.md && git init -q . && "
              "git add . && " +
              git + "commit -q -m one")
              .code == 0);
  const ShellResult lacking = run("deploy/release --out out");
  CHECK(lacking.code == 2);
  CHECK(absl::StrContains(lacking.said, "CHANGELOG.md has no entry \"## 7.1.0\""));
  REQUIRE(run("printf '| 7.1.0 | 3 |\\n\\n## 7.1.0\\n' >>CHANGELOG.md").code == 0);
  const ShellResult changed = run("deploy/release --out out");
  CHECK(changed.code == 2);
  CHECK(absl::StrContains(changed.said, "changes that are not committed:  M CHANGELOG.md"));
  CHECK(run("[ ! -e out ]").code == 0);
}

TEST_CASE("programs of a bundle run with the libraries beside them, those opened by name too") {
  if (RunShell("command -v patchelf && dpkg-query -S /bin/sh").code != 0) {
    WARN("skipped: there is no patchelf or no dpkg");
    return;
  }
  const TestDirectory directory;
  const std::string root = directory.path() + "/any where";
  const ShellResult made =
      RunShell(PARACORD_SOURCE_DIR "/deploy/bundle '" + root + "' " PARACORD_BIN_DIR "/paracord");
  INFO(made.said);
  REQUIRE(made.code == 0);
  CHECK(absl::StartsWith(made.said, "2_"));  // a glibc version
  const std::string program = "'" + root + "/bin/paracord' ";
  CHECK(RunShell(program + "--version").code == 0);
  const std::string loaded = RunShell("LD_TRACE_LOADED_OBJECTS=1 " + program).said;
  for (const std::string name : {"libgrpc++.so.1.51", "libdnnl.so", "libssl.so"}) {
    INFO(name << " in " << loaded);
    if (!absl::StrContains(loaded, name)) continue;  // not used on this Debian
    CHECK(absl::StrContains(loaded, root + "/bin/../lib/" + name));
  }
  CHECK_FALSE(absl::StrContains(loaded, root + "/bin/../lib/libc.so"));
  // The system's libcurl is found by name, too, and would load the system's OpenSSL.
  const std::string opened = RunShell(
                                 "export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=key "
                                 "AWS_ENDPOINT_URL=http://127.0.0.1:1\n"
                                 "LD_DEBUG=libs timeout 2 " +
                                 program + "checkpoint ls --dir s3://bucket/job")
                                 .said;
  CHECK(absl::StrContains(opened, "calling init: " + root + "/bin/../lib/libcurl.so.4"));
  CHECK_FALSE(absl::StrContains(opened, "calling init: /usr/lib/x86_64-linux-gnu/libcurl"));
  CHECK_FALSE(absl::StrContains(opened, "calling init: /lib/x86_64-linux-gnu/libcurl"));
  const std::string list = RunShell("cat '" + root + "/licenses/README'").said;
  for (const std::string package : {"libcurl4 ", "nlohmann-json3-dev "}) {
    CHECK(absl::StrContains(list, "\n" + package));
  }
  CHECK(RunShell("cd '" + root + "/licenses' && cat libcurl4/copyright texts/LGPL-2.1").code == 0);
}

}  // namespace
}  // namespace paracord
