// Runs `paracord train` on a counting job in a temporary directory.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {

class Train {
 public:
  static constexpr uint64_t kSteps = 600;

  explicit Train(uint64_t steps = kSteps, double every_seconds = 0.5) {
    WriteCountingJob(root(),
                     {{"steps", steps}, {"checkpoint", {{"every_seconds", every_seconds}}}});
  }
  const std::string& root() const { return temp_.path(); }
  std::string dir() const { return root() + "/its dir"; }
  std::string log() const { return ReadText(root() + "/train.log"); }
  bool Said(const std::string& text) const { return log().find(text) != std::string::npos; }

  std::unique_ptr<Process> Start(const std::vector<std::string>& more = {},
                                 const std::string& failpoints = "worker.computed=stall:4") {
    std::vector<std::string> command = {
        PARACORD_BIN_DIR "/paracord", "train", root() + "/job.json", "--dir", dir(), "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const Variables variables = {{"PARACORD_FAILPOINTS", failpoints}, {"TMPDIR", root()}};
    return std::make_unique<Process>(command, variables, root() + "/train.log");
  }
  // Counts the folders with the sockets of a cluster.
  size_t SocketDirs() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root())) {
      count += entry.path().filename().string().starts_with("paracord-") ? 1 : 0;
    }
    return count;
  }
  bool WaitForCheckpoint() {
    return WaitUntil(20000, [&] { return !NewestCheckpoint(dir()).empty(); });
  }
  // Waits until a worker trains.
  bool WaitUntilTraining() {
    int64_t since = 0;
    return WaitUntil(20000, [&] {
      const bool joined =
          ReadText(dir() + "/logs/worker-0.log").find("joined: session") != std::string::npos;
      if (joined && since == 0) since = NowMs();
      return joined && NowMs() - since > 300;
    });
  }
  // Returns the daemons that work in dir().
  std::vector<pid_t> Daemons() const {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string command = ReadText(entry.path().string() + "/cmdline");
      const bool ours = command.find("/paracord-") != std::string::npos &&
                        command.find(dir()) != std::string::npos;
      if (ours) pids.push_back(std::stoi(pid));
    }
    return pids;
  }
  void Signal(const std::string& role, int signal) const {
    for (const pid_t pid : Daemons()) {
      const std::string command = ReadText(absl::StrCat("/proc/", pid, "/cmdline"));
      if (command.find("/paracord-" + role) != std::string::npos) kill(pid, signal);
    }
  }

 private:
  TestDirectory temp_;
};

}  // namespace paracord::e2e
