// `paracord doctor` names the faults of a host and their remedies.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/answering.h"
#include "cli/commands.h"
#include "cli/doctor_checks.h"
#include "common/json_text.h"
#include "common/steady_ms.h"
#include "daemon/daemon_process.h"
#include "net/grpc/network.h"
#include "net/health.h"
#include "tests/certificates.h"
#include "tests/coordinator/core_harness.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using Level = Finding::Level;

struct DoctorSaid {
  int code = -1;
  std::string out, err;
};

DoctorSaid Doctor(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  const int code = RunDoctor(args, out, err);
  return {code, out.str(), err.str()};
}

class LoopAtOnce : public ManualLoop {
 public:
  void Post(std::function<void()> fn) override { fn(); }
};

TEST_CASE("a directory that can be used leaves nothing behind, and one that cannot is named") {
  const TestDirectory directory;
  PosixFiles files;
  for (const Finding& finding : CheckJobDir(files, directory.path(), UnixMs())) {
    INFO(finding.topic << ": " << finding.text);
    CHECK(finding.level != Level::kWrong);
  }
  CHECK(files.List(directory.path())->empty());
  directory.Write("file", "");
  const std::vector<Finding> found = CheckJobDir(files, directory / "file", UnixMs());
  REQUIRE(found.size() == 1);
  CHECK(found[0].level == Level::kWrong);
  CHECK(found[0].text.find(directory / "file") != std::string::npos);
  CHECK_FALSE(found[0].remedy.empty());
}

TEST_CASE("each program is asked for its version") {
  const TestDirectory directory;
  const auto install = [&](const std::string& name, const std::string& line) {
    const std::string path = directory.Write(name, "#!/bin/sh\n" + line + "\n");
    REQUIRE(chmod(path.c_str(), 0700) == 0);
  };
  const auto prints = [](const std::string& text) { return "echo '" + text + "'"; };
  for (const std::string name : {"paracord-ps", "paracord-worker", "paracord-coordinator"}) {
    install(name, "[ \"$1\" = --version ] && " + prints(VersionText(name)));
  }
  const std::vector<Finding> fine = CheckPrograms(directory.path());
  REQUIRE(fine.size() == 1);
  INFO(fine[0].text);
  CHECK(fine[0].level == Level::kFine);
  install("paracord-ps", prints("paracord-ps 0.0.1, protocol 1"));
  install("paracord-worker", "kill -9 $$");
  REQUIRE(unlink((directory / "paracord-coordinator").c_str()) == 0);
  const std::vector<Finding> found = CheckPrograms(directory.path());
  REQUIRE(found.size() == 3);
  for (const Finding& finding : found) CHECK(finding.level == Level::kWrong);
  CHECK(found[0].text == directory / "paracord-ps" +
                             " --version prints \"paracord-ps 0.0.1, protocol 1\", and not \"" +
                             VersionText("paracord-ps") + "\"");
  CHECK(found[1].text.find(directory / "paracord-worker" + " --version prints nothing") == 0);
  CHECK(found[2].text.find("is missing or may not be run") != std::string::npos);
}

TEST_CASE("a storage whose clock differs is told by how much") {
  const TestDirectory directory;
  PosixFiles files;
  const std::vector<Finding> found = CheckJobDir(files, directory.path(), UnixMs() - 3600 * 1000);
  CHECK(found.back().level == Level::kDoubtful);
  CHECK(found.back().text.find("s ahead of this host's") != std::string::npos);
}

TEST_CASE("an address is one of a daemon, of nobody, of somebody else, or none") {
  const TestDirectory directory;
  const std::string address = "unix:" + (directory / "socket");
  GrpcNetwork network;
  CHECK(CheckPeer(network, "k", address, /*ours=*/false).level == Level::kDoubtful);
  CHECK(CheckPeer(network, "k", address, /*ours=*/true).level == Level::kFine);
  CHECK(CheckPeer(network, "k", "nothing", false).level == Level::kWrong);
  CHECK(CheckPeer(network, "k", "no-such-host.invalid:80", false).level == Level::kWrong);
  LoopAtOnce loop;
  HealthService health(
      "ps:1", loop,
      [] {
        return HealthState{true, "holds 3 partitions"};
      },
      nullptr);
  const auto listener = network.Listen(address, health);
  REQUIRE(listener.ok());
  const Finding there = CheckPeer(network, "k", address, false);
  CHECK(there.level == Level::kFine);
  CHECK(there.text.find("is ps:1, which holds 3 partitions") != std::string::npos);
}

TEST_CASE("doctor ends with 1 where something is wrong, and each such line has a remedy") {
  const TestDirectory directory;
  const DoctorSaid fine = Doctor({"--dir", directory.path(), "--device", "cpu"});
  INFO(fine.out << fine.err);
  CHECK(fine.out.find("descriptors") != std::string::npos);
  directory.Write("file", "");
  const DoctorSaid wrong = Doctor({"--dir", directory / "file"});
  CHECK(wrong.code == 1);
  CHECK(wrong.out.find("WRONG directory") != std::string::npos);
  CHECK(wrong.out.find("has to be able to make") != std::string::npos);
  CHECK(Doctor({"--task", "nobody:1"}).code == 2);
  CHECK(Doctor({"--help"}).code == 0);
}

TEST_CASE("doctor calls it wrong where the environment arms failpoints") {
  CHECK(CheckFailpoints().level == Level::kFine);
  setenv("PARACORD_FAILPOINTS", "ps.push.applied=kill@3", 1);
  const Finding armed = CheckFailpoints();
  unsetenv("PARACORD_FAILPOINTS");
  CHECK(armed.level == Level::kWrong);
  CHECK(armed.text.find("ps.push.applied=kill@3") != std::string::npos);
  CHECK(armed.remedy.starts_with("unset PARACORD_FAILPOINTS"));
}

TEST_CASE("doctor says which partitions are on one ps only, and what gives them a second") {
  CoreHarness harness([](Job& job) {
    job.partitioner.copies = 1;
    job.checkpoint.every_seconds = 0.5;
  });
  const auto found = [&] {
    const std::vector<Finding> all = CheckCopiesAndMove(JsonOf(harness.Told().StatusJson()));
    REQUIRE(all.size() == 1);
    CHECK(all[0].topic == "copies");
    return all[0];
  };
  harness.prepare_status = absl::ResourceExhaustedError("--memory-limit is 1 GiB");
  const WorkReply reply = harness.Work(harness.Join("worker:0"));
  CHECK(found().level == Level::kDoubtful);
  CHECK(found().text == "4 of 4 partitions, 781.2 KiB, are on one ps only");
  CHECK_THAT(found().remedy, Catch::Contains("start that ps again"));
  harness.Enter(reply.lease());
  harness.Work(1, {CoreHarness::Done(reply.lease())}, false);
  harness.Run(3000);
  CHECK_THAT(found().text, Catch::Contains("ps:1 has no room for copies: --memory-limit is 1 GiB"));
  CHECK_THAT(found().remedy, Catch::Contains("a larger --memory-limit"));

  CoreHarness roomy([](Job& job) {
    job.partitioner.copies = 1;
    job.checkpoint.every_seconds = 0.5;
  });
  const WorkReply work = roomy.Work(roomy.Join("worker:0"));
  roomy.Enter(work.lease());
  roomy.Work(1, {CoreHarness::Done(work.lease())}, false);
  roomy.Run(7000);
  const auto fine = CheckCopiesAndMove(JsonOf(roomy.Told().StatusJson()));
  REQUIRE(fine.size() == 1);
  CHECK(fine[0].level == Level::kFine);
  CHECK(fine[0].text == "all 4 partitions are on two ps");
}

TEST_CASE("doctor says where a move waits, and why one was given up") {
  CoreHarness harness([](Job& job) { job.timeouts.start_s = 60; });
  CHECK(CheckCopiesAndMove(JsonOf(harness.Told().StatusJson())).empty());
  harness.Join("worker:0");
  ScaleRequest request;
  request.set_ps(3);
  request.add_addresses("unix:/ps-2");
  harness.dead = {2};
  harness.Feed(ScaleEvent{++harness.call, request});
  harness.Run(5000);
  const auto found = [&] {
    const std::vector<Finding> all = CheckCopiesAndMove(JsonOf(harness.Told().StatusJson()));
    REQUIRE(all.size() == 1);
    CHECK(all[0].topic == "move");
    return all[0];
  };
  CHECK(found().level == Level::kDoubtful);
  CHECK_THAT(found().text, Catch::Contains("ps:2 at unix:/ps-2: no connection"));
  harness.Run(30'000);
  CHECK(found().level == Level::kDoubtful);
  CHECK_THAT(found().text, Catch::StartsWith("the move to 3 ps has been under way for 35 s") &&
                               Catch::Contains("looking at the new ps"));
  CHECK_THAT(found().remedy, Catch::Contains("cancels a move"));
  harness.Run(40'000);
  CHECK(found().level == Level::kDoubtful);
  CHECK_THAT(found().text, Catch::StartsWith("the move to 3 ps was given up: ps:2 at unix:/ps-2"));
  CHECK(found().remedy == "mend that, and ask again: paracord scale");
}

TEST_CASE("doctor asks the coordinator that the job's directory names, and tells what it says") {
  CoreHarness harness([](Job& job) {
    job.partitioner.copies = 1;
    job.checkpoint.every_seconds = 60;
  });
  harness.Join("worker:0");
  Answering coordinator(harness.Told().StatusJson());
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + (directory / "coordinator");
  directory.Write("coordinator.address", address);
  const auto without = Doctor({"--dir", directory.path(), "--device", "cpu"});
  CHECK(without.out.find("copies") == std::string::npos);  // nobody answers there
  const auto listener = network.Listen(address, coordinator);
  REQUIRE(listener.ok());
  const auto with = Doctor({"--dir", directory.path(), "--device", "cpu"});
  INFO(with.out << with.err);
  CHECK(with.code == without.code);
  CHECK(with.out.find("look  copies") != std::string::npos);
  CHECK(with.out.find("4 of 4 partitions, 781.2 KiB, are on one ps only") != std::string::npos);
}

TEST_CASE("a certificate is fine, soon to be replaced, or has expired") {
  constexpr int64_t kDay = 24 * 3600;
  const int64_t now_s = 1'000'000;
  const auto check = [&](int64_t left_s) {
    return CheckCertificate("ps.crt", now_s + left_s, now_s * 1000);
  };
  CHECK(check(14 * kDay).level == Level::kFine);
  CHECK(check(14 * kDay).text == "ps.crt expires in 14 days");
  CHECK(check(14 * kDay - 1).level == Level::kDoubtful);
  CHECK(check(1).remedy.find("deploy/certs") != std::string::npos);
  CHECK(check(0).level == Level::kWrong);
  CHECK(check(-1).text == "ps.crt expired 1 second ago");
}

TEST_CASE("doctor says how long the own certificate holds, and what is wrong with its files") {
  const TestCa ca("lab");
  const auto said = [&](int64_t seconds) {
    const TestKeys keys(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0", seconds));
    const SecurityOptions options = keys.options();
    return Doctor({"--device", "cpu", "--tls-cert", options.cert, "--tls-key", options.key,
                   "--tls-ca", options.ca});
  };
  CHECK(said(30 * 24 * 3600 + 60).out.find("expires in 30 days") != std::string::npos);
  CHECK(said(3600).out.find("look  certificate") != std::string::npos);
  const DoctorSaid expired = said(-60);
  CHECK(expired.code == 1);
  CHECK(expired.out.find("WRONG certificate") != std::string::npos);
  const TestCa other("lab");
  const TestKeys foreign(ca.pem(), other.Issue("URI:spiffe://lab/ps/0"));
  const SecurityOptions options = foreign.options();
  const DoctorSaid unknown = Doctor({"--device", "cpu", "--tls-cert", options.cert, "--tls-key",
                                     options.key, "--tls-ca", options.ca});
  CHECK(unknown.code == 1);
  CHECK(unknown.out.find("WRONG certificate    --tls-cert " + options.cert +
                         ": it is signed by another CA than those of --tls-ca") !=
        std::string::npos);
  const DoctorSaid missing = Doctor({"--device", "cpu", "--tls-ca", "/nowhere/ca.crt"});
  CHECK(missing.code == 1);
  CHECK(missing.out.find("WRONG credentials") != std::string::npos);
}

TEST_CASE("a cluster's own address that somebody has is wrong, and the others are only looked at") {
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string own = "unix:" + (directory / "own"), other = "unix:" + (directory / "other");
  directory.Write("cluster.json",
                  R"({"cluster": {"chief": [")" + own + R"("], "ps": [")" + other + R"("]}})");
  directory.Write("own", "no socket");
  const DoctorSaid ran = Doctor({"--cluster", directory / "cluster.json", "--task", "chief"});
  INFO(ran.out);
  CHECK(ran.code == 1);
  CHECK(ran.out.find("WRONG cluster.chief") != std::string::npos);
  CHECK(ran.out.find("look  cluster.ps[0]") != std::string::npos);
}

}  // namespace
}  // namespace paracord
