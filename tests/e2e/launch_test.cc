// Tests `paracord launch` with a fake ssh, which runs every command on this host.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "e2e/counting_job.h"
#include "e2e/ports.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

constexpr uint64_t kLaunchSteps = 400;

class Launch {
 public:
  explicit Launch(uint64_t steps = kLaunchSteps) {
    WriteCountingJob(root(), {{"steps", steps}, {"checkpoint", {{"every_seconds", 0.3}}}});
    // The fake ssh records the host and, like the real one, passes its words to one shell.
    WriteText(root() + "/ssh",
              "#!/bin/sh\necho $1 >> " + root() + "/hosts\nshift\nexec sh -c \"$*\"\n");
    chmod((root() + "/ssh").c_str(), 0755);
  }
  const std::string& root() const { return temp_.path(); }
  std::string dir() const { return root() + "/its dir"; }
  std::string log() const { return ReadText(root() + "/launch.log"); }
  bool Said(const std::string& text) const { return log().find(text) != std::string::npos; }

  std::unique_ptr<Process> Start(const std::vector<std::string>& more = {},
                                 const std::string& hosts = "127.0.0.2,127.0.0.3") const {
    std::vector<std::string> command = {PARACORD_BIN_DIR "/paracord",
                                        "launch",
                                        root() + "/job.json",
                                        "--hosts",
                                        hosts,
                                        "--ssh",
                                        root() + "/ssh",
                                        "--port",
                                        absl::StrCat(FirstPort()),
                                        "--ps",
                                        "2",
                                        "--workers",
                                        "2",
                                        "--dir",
                                        dir()};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<Process>(command,
                                     Variables{{"PARACORD_FAILPOINTS", "worker.computed=stall:4"}},
                                     root() + "/launch.log");
  }
  // Returns the processes whose command line begins with `first` and contains `text` and root().
  std::vector<pid_t> Find(const std::string& first, const std::string& text) const {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string command = ReadText(entry.path().string() + "/cmdline");
      const bool found = command.starts_with(first) && command.find(root()) != std::string::npos &&
                         command.find(text) != std::string::npos;
      if (found) pids.push_back(std::stoi(pid));
    }
    return pids;
  }
  std::vector<pid_t> Daemons(const std::string& role = "") const {
    return Find(PARACORD_BIN_DIR "/paracord-" + role, "");
  }
  bool WaitForCheckpoint() const {
    if (WaitUntil(30000, [&] { return !NewestCheckpoint(dir()).empty(); })) return true;
    UNSCOPED_INFO(log());
    return false;
  }

 private:
  TestDirectory temp_;
};

TEST_CASE("launch trains on its hosts, shows the logs behind their tasks, and ends with the job") {
  Launch launch(100);
  const auto command = launch.Start({"--threads", "2"});
  const auto code = command->Wait(60000);
  INFO(launch.log());
  CHECK(code == 0);
  CheckCounted(launch.dir(), 100);
  CHECK(OpenToOthers(launch.dir()) == std::vector<std::string>());
  CHECK(launch.Said("on 2 hosts in "));
  for (const std::string task : {"coordinator:0", "ps:0", "ps:1", "worker:0", "worker:1"}) {
    CHECK(launch.Said("\n" + task + " | 2"));
  }
  CHECK(ReadText(launch.dir() + "/logs/ps-1.log").find("listens at 127.0.0.3:") !=
        std::string::npos);
  const std::string hosts = ReadText(launch.root() + "/hosts");
  CHECK(std::count(hosts.begin(), hosts.end(), '2') == 3 + 5);  // each line has the 2 of 127
  CHECK(launch.Daemons().empty());
}

TEST_CASE("launch starts a daemon again that was killed, and one whose connection is lost") {
  Launch launch(800);
  const auto command = launch.Start();
  REQUIRE(launch.WaitForCheckpoint());
  const std::vector<pid_t> ps = launch.Daemons("ps");
  REQUIRE(ps.size() == 2);
  kill(ps[0], SIGKILL);
  REQUIRE(WaitUntil(20000, [&] { return launch.Said("ended (exit code 137) and was restarted"); }));
  const std::vector<pid_t> ssh = launch.Find("/bin/sh", "worker:1");
  REQUIRE(!ssh.empty());
  const std::vector<pid_t> workers = launch.Daemons("worker");
  kill(*std::min_element(ssh.begin(), ssh.end()), SIGKILL);
  REQUIRE(WaitUntil(20000, [&] { return launch.Said("worker:1 ended (signal 9)"); }));
  const auto code = command->Wait(90000);
  INFO(launch.log());
  CHECK(code == 0);
  CheckCounted(launch.dir(), 800);
  CHECK(launch.Daemons().empty());
}

TEST_CASE("Ctrl-C on launch takes a checkpoint, and the same command goes on from there") {
  Launch launch;
  const auto first = launch.Start({"--insecure"});
  REQUIRE(launch.WaitForCheckpoint());
  first->Signal(SIGINT);
  const auto code = first->Wait(60000);
  INFO(launch.log());
  REQUIRE(code == 143);
  CHECK(launch.Daemons().empty());
  CHECK(launch.Said("; to go on from "));
  CHECK(launch.Said(absl::StrCat(": paracord launch ", launch.root(),
                                 "/job.json --hosts 127.0.0.2,127.0.0.3 --ssh ")));
  const std::string log = launch.log();
  const size_t flag = log.find(" --insecure ", log.find("; to go on from "));
  REQUIRE(flag != std::string::npos);
  CHECK(log.find(" --insecure ", flag + 1) == std::string::npos);
  CHECK(launch.Start()->Wait(60000) == 0);
  CHECK(launch.Said("going on from checkpoint"));
  CheckCounted(launch.dir(), kLaunchSteps);
}

TEST_CASE("a launch that is killed leaves no daemon behind") {
  Launch launch(100000);
  const auto command = launch.Start();
  REQUIRE(launch.WaitForCheckpoint());
  CHECK(launch.Daemons().size() == 5);
  command->Kill();
  CHECK(WaitUntil(60000, [&] { return launch.Daemons().empty(); }));
}

TEST_CASE("launch ends with the code of a daemon that cannot run, and says why") {
  Launch launch;
  const auto command = launch.Start({"--device", "cuda:banana"});
  const auto code = command->Wait(60000);
  INFO(launch.log());
  CHECK(code == 2);
  CHECK(launch.Said("paracord launch: worker:"));
  CHECK(launch.Said("cuda:banana"));
}

TEST_CASE("launch refuses hosts that are none and an ssh that is not there") {
  Launch launch;
  CHECK(launch.Start({"--bin", "/no/programs"})->Wait(60000) == 127);
  CHECK(launch.Said("/no/programs/paracord-"));
  CHECK(launch.Start({}, "127.0.0.2,-oProxyCommand=x")->Wait(60000) == 2);
  CHECK(launch.Said("paracord launch: --hosts: -oProxyCommand=x is no host"));
}

}  // namespace
}  // namespace paracord::e2e
