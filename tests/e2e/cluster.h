// A cluster of real daemons for tests, on unix sockets or TCP ports, in a temporary directory.
// Tasks are named as in logs: "coordinator", "ps:0", "worker:1". Used in the test's main thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "e2e/process.h"
#include "net/grpc/network.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace paracord::e2e {

struct ClusterOptions {
  uint32_t ps = 2;
  uint32_t spare_ps = 0;  // further ps that the job is not told of: ps:2 and so on
  uint32_t workers = 2;
  // Makes the workers nodes, without ps. Unless there is a `chief`, worker:0 holds the coordinator.
  bool nodes = false;
  bool chief = false;
  bool unix_workers = false;  // shows the coordinator that all workers are on its host
  bool tcp = false;           // false: unix sockets, and shared memory between workers and ps
  // Each worker sleeps this long in each batch, so that the test can disturb the job.
  int batch_ms = 0;
  int threads = 1;                                // per worker
  std::string device = "auto";                    // per worker
  Variables environment = {};                     // added to all processes
  nlohmann::json job = nlohmann::json::object();  // merged into job.json of the counting job
  // Runs a worker in place of paracord-worker, with the coordinator's address and the task as last
  // arguments.
  std::vector<std::string> worker = {};
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  ~Cluster();  // shows the end of each log if the test failed

  const std::string& root() const { return temp_.path(); }   // data, job.json, sockets, logs
  const std::string dir() const { return root() + "/dir"; }  // DIR of the job
  const std::string job() const { return root() + "/job.json"; }
  void WriteJob(const nlohmann::json& patch);  // replaces job.json

  // The task whose process holds the coordinator.
  std::string leader() const {
    return options_.nodes && !options_.chief ? "worker:0" : "coordinator";
  }

  void StartAll();
  void Start(const std::string& task, const Variables& environment = {},
             const std::vector<std::string>& arguments = {});
  Process& at(const std::string& task) { return *processes_.at(task); }
  // Gives up the task's process, so that the test can start another in its place.
  std::unique_ptr<Process> TakeOut(const std::string& task) {
    return std::move(processes_.extract(task).mapped());
  }
  std::string Log(const std::string& task) const;
  bool Logged(const std::string& task, const std::string& text) const;
  std::string address(const std::string& task) const { return addresses_.at(task); }
  // Gives a task a separate directory for DIR, as if its host did not share DIR.
  void GiveDir(const std::string& task, const std::string& dir) { dirs_[task] = dir; }
  // Tells other tasks to reach `task` at `address`, as through a proxy.
  void Announce(const std::string& task, const std::string& address);

  // Restarts every process that was killed or exited with 128 and above, as a supervisor does.
  // Returns these processes.
  std::vector<std::pair<std::string, Exit>> Supervise();
  // Supervises until the leader exits with a code below 128. Returns the code, or -1 at the
  // time-out.
  int Finish(int64_t wait_ms = 60000);
  bool WaitAllGone(int64_t wait_ms);  // shows the log ends of processes that remain
  void KillAll();

  // Returns the status as `paracord status --json` does, or null if the coordinator does not
  // answer.
  nlohmann::json Status();
  // Returns the entry of a task, such as ps:0, in the newest status.
  nlohmann::json StatusOf(const std::string& kind, const std::string& task);
  uint64_t BatchesDone();
  bool WaitForBatches(uint64_t batches, int64_t wait_ms = 30000);
  // Asks a ps at its address for Describe, and returns the answer.
  nlohmann::json Describe(const std::string& task);
  nlohmann::json Summary() const;

 private:
  uint32_t ps() const { return options_.nodes ? 0 : options_.ps; }
  std::vector<std::string> Command(const std::string& task) const;
  Link& LinkTo(const std::string& address);
  std::string LogPath(const std::string& task) const;
  void ShowEndOfLog(const std::string& task) const;

  const ClusterOptions options_;
  TestDirectory temp_;
  GrpcNetwork network_;
  std::map<std::string, std::string> addresses_;
  std::map<std::string, std::string> announced_;
  std::map<std::string, std::string> dirs_;  // per task, unless it uses dir()
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::map<std::string, std::unique_ptr<Link>> links_;
};

std::string FreeTcpAddress();

}  // namespace paracord::e2e
