#include "cli/ssh_hosts.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace paracord {
namespace {

SshHosts Hosts(const std::vector<std::string>& hosts, uint32_t ps, uint32_t workers) {
  return SshHosts({hosts, {"/usr/bin/ssh", "-q"}, "/opt/para cord", 7400}, ps, workers);
}

TEST_CASE("the ps and then the workers are dealt out to the hosts in turn, each with a port") {
  const SshHosts hosts = Hosts({"a", "me@b", "c"}, 2, 5);
  CHECK(hosts.AddressOf({Role::kCoordinator, 0}) == "a:7400");
  CHECK(hosts.AddressOf({Role::kPs, 0}) == "a:7401");
  CHECK(hosts.AddressOf({Role::kPs, 1}) == "b:7402");
  CHECK(hosts.AddressOf({Role::kWorker, 0}) == "c:7403");
  CHECK(hosts.AddressOf({Role::kWorker, 1}) == "a:7404");
  CHECK(hosts.AddressOf({Role::kWorker, 4}) == "a:7407");
  CHECK(hosts.HostOf({Role::kEvaluator, 0}) == "me@b");
}

TEST_CASE("the workers of a host divide its processors, and so do its ps") {
  const SshHosts hosts = Hosts({"a", "b", "c"}, 4, 5);
  CHECK(hosts.Sharing({Role::kPs, 0}) == 2);      // host a: ps 0 and 3
  CHECK(hosts.Sharing({Role::kPs, 1}) == 1);      // host b: ps 1
  CHECK(hosts.Sharing({Role::kWorker, 0}) == 2);  // host b: workers 0 and 3
  CHECK(hosts.Sharing({Role::kWorker, 2}) == 1);  // host a: worker 2
}

TEST_CASE("a daemon's command reaches its host as one argument for any shell") {
  const SshHosts hosts = Hosts({"a", "me@b"}, 1, 2);
  const std::vector<std::string> command = hosts.Command(
      {Role::kWorker, 0}, {"TF_CONFIG={\"it's\": 1}"}, {"paracord-worker", "--dir", "/my dir"});
  REQUIRE(command.size() == 4);
  CHECK(command[0] == "/usr/bin/ssh");
  CHECK(command[1] == "-q");
  CHECK(command[2] == "me@b");
  CHECK(absl::StartsWith(command[3], "exec /bin/sh -c 'n=$(($(nproc) / 1)); "));
  CHECK(absl::StrContains(command[3], "/opt/para cord/paracord-worker"));
  // The coordinator gets no --threads.
  CHECK_FALSE(absl::StrContains(
      hosts.Command({Role::kCoordinator, 0}, {}, {"paracord-coordinator"})[3], "--threads"));
}

TEST_CASE("threads that the user chose are told a daemon once, and are not its host's") {
  const SshHosts hosts = Hosts({"a", "b"}, 1, 2);
  const auto told = [&](const std::vector<std::string>& daemon) {
    return hosts.Command({Role::kWorker, 0}, {}, daemon).back();
  };
  CHECK(absl::StrContains(told({"paracord-worker"}), " --threads $((n > 0 ? n : 1))"));
  const std::string chosen = told({"paracord-worker", "--threads", "3"});
  CHECK(absl::StrContains(chosen, "--threads"));
  CHECK_FALSE(absl::StrContains(chosen, "--threads $"));
}

TEST_CASE("workers of hosts without ps are told their threads for pushes, and others are not") {
  const auto said = [](uint32_t ps) {
    return Hosts({"a", "b"}, ps, 2).Command({Role::kWorker, 1}, {}, {"paracord-worker"}).back();
  };
  CHECK(absl::StrContains(said(0), " --ps-threads $((n > 0 ? n : 1))"));
  CHECK_FALSE(absl::StrContains(said(1), "--ps-threads"));
}

TEST_CASE("arguments that a shell would split are quoted") {
  CHECK(ShellWord("/a/b-c_d.e=f") == "/a/b-c_d.e=f");
  CHECK(ShellWord("") == "''");
  CHECK(ShellWord("a b") == "'a b'");
  CHECK(ShellWord("it's") == "'it'\\''s'");
}

TEST_CASE("an entry of --hosts that is no host is named") {
  CHECK(CheckHosts({"a", "me@b.example.org", "10.0.0.1"}).ok());
  CHECK(CheckHosts({}).message() == "--hosts: needs at least one host");
  CHECK(absl::StrContains(CheckHosts({"a", "-oProxyCommand=x"}).message(), "-oProxyCommand=x"));
  CHECK(absl::StrContains(CheckHosts({"a", "b c"}).message(), "--hosts: b c"));
}

}  // namespace
}  // namespace paracord
