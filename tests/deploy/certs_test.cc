// Verifies certificates of deploy/certs with openssl.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "deploy/shell.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

class Certs {
 public:
  Certs() {
    const ShellResult made = Make("lab coordinator ps:0 worker:12 operator evaluator:0");
    INFO(made.said);
    REQUIRE(made.code == 0);
  }
  ShellResult Make(const std::string& words, const std::string& flags = "") const {
    return RunShell(PARACORD_SOURCE_DIR "/deploy/certs " + flags + " " + Path("") + " " + words);
  }
  std::string Path(const std::string& name) const { return directory_ / "certs/" + name; }
  bool Verifies(const std::string& name, const std::string& flags = "") const {
    const std::string command = "openssl verify " + flags + " -CAfile ";
    return RunShell(command + Path("ca.crt") + " " + Path(name)).code == 0;
  }
  std::string Uri(const std::string& name) const {
    const std::string said =
        RunShell("openssl x509 -noout -ext subjectAltName -in " + Path(name)).said;
    const size_t at = said.find("URI:");
    return at == said.npos ? said : said.substr(at, said.find('\n', at) - at);
  }

 private:
  const TestDirectory directory_;
};

TEST_CASE("certificates of a cluster name their tasks, and only their owner reads the keys") {
  const Certs certs;
  for (const auto& [name, uri] :
       std::map<std::string, std::string>{{"coordinator", "spiffe://lab/coordinator"},
                                          {"ps-0", "spiffe://lab/ps/0"},
                                          {"worker-12", "spiffe://lab/worker/12"},
                                          {"operator", "spiffe://lab/operator"},
                                          {"evaluator-0", "spiffe://lab/monitor/0"}}) {
    CAPTURE(name);
    CHECK(certs.Verifies(name + ".crt"));
    CHECK(certs.Uri(name + ".crt") == "URI:" + uri);
    CHECK(certs.Verifies(name + ".crt", "-purpose sslserver -verify_hostname lab"));
    CHECK_FALSE(certs.Verifies(name + ".crt", "-verify_hostname plant"));
    const auto mode = std::filesystem::status(certs.Path(name + ".key")).permissions();
    CHECK((mode & std::filesystem::perms(077)) == std::filesystem::perms::none);
  }
}

TEST_CASE("certificates and their authority are replaced without a moment in which none holds") {
  const Certs certs;
  const std::string before = RunShell("cat " + certs.Path("ps-0.crt")).said;
  REQUIRE(certs.Make("lab ps:0").code == 0);
  CHECK(RunShell("cat " + certs.Path("ps-0.crt")).said != before);
  CHECK(certs.Verifies("ps-0.crt"));
  REQUIRE(certs.Make("lab", "--new-ca").code == 0);
  CHECK(certs.Verifies("ps-0.crt"));  // signed by the old authority
  REQUIRE(certs.Make("lab ps:0").code == 0);
  CHECK(certs.Verifies("ps-0.crt"));
  CHECK(certs.Verifies("worker-12.crt"));
  REQUIRE(certs.Make("", "--forget-old-ca").code == 0);
  CHECK(certs.Verifies("ps-0.crt"));
  CHECK_FALSE(certs.Verifies("worker-12.crt"));
}

TEST_CASE("the folder of another cluster's certificates is refused") {
  const Certs certs;
  const ShellResult refused = certs.Make("plant ps:0");
  CHECK(refused.code == 2);
  CHECK(refused.said.find("has the authority of the cluster lab, and not of plant") !=
        std::string::npos);
  CHECK(certs.Uri("ps-0.crt") == "URI:spiffe://lab/ps/0");
}

TEST_CASE("a cluster or a task that cannot be in a certificate is refused by name") {
  const Certs certs;
  for (const auto& [words, what] : std::map<std::string, std::string>{
           {"Lab ps:0", "is Lab"},
           {"lab chief", "is chief"},
           {"lab ps:x", "is ps:x"},
           {"lab 'ps:0,URI:spiffe://lab/operator'", "is ps:0,URI"}}) {
    const ShellResult refused = certs.Make(words);
    CAPTURE(words, refused.said);
    CHECK(refused.code == 2);
    CHECK(refused.said.find(what) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
