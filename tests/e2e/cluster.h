// A cluster of the real daemons, started by a test on unix sockets or TCP ports of its own, in a
// temporary directory. Tasks are named as in logs: "coordinator", "ps:0", "worker:1". Used in the
// test's main thread.
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
  // The workers are nodes and there is no ps; the coordinator is in worker:0 unless there is a
  // chief.
  bool nodes = false;
  bool chief = false;
  bool unix_workers = false;  // so that the coordinator knows that all are on its host
  bool tcp = false;           // else unix sockets, and shared memory between workers and ps
  // Each worker waits this long in each batch, so that a job lasts long enough to be disturbed.
  int batch_ms = 0;
  int threads = 1;                                // of each worker
  std::string device = "auto";                    // of each worker
  Variables environment = {};                     // of each process
  nlohmann::json job = nlohmann::json::object();  // merged into the counting job's job.json
  // The command that is a worker if paracord-worker is not: it is given the coordinator's address
  // and the task.
  std::vector<std::string> worker = {};
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  ~Cluster();  // a failed test shows the end of each log

  const std::string& root() const { return temp_.path(); }   // data, job.json, sockets, logs
  const std::string dir() const { return root() + "/dir"; }  // DIR of the job
  const std::string job() const { return root() + "/job.json"; }
  void WriteJob(const nlohmann::json& patch);  // anew

  // The task whose process has the coordinator.
  std::string leader() const {
    return options_.nodes && !options_.chief ? "worker:0" : "coordinator";
  }

  void StartAll();
  void Start(const std::string& task, const Variables& environment = {},
             const std::vector<std::string>& arguments = {});
  Process& at(const std::string& task) { return *processes_.at(task); }
  // Returns the task's process, so that another one can be started in its place.
  std::unique_ptr<Process> TakeOut(const std::string& task) {
    return std::move(processes_.extract(task).mapped());
  }
  std::string Log(const std::string& task) const;
  bool Logged(const std::string& task, const std::string& text) const;
  std::string address(const std::string& task) const { return addresses_.at(task); }
  // Gives a task another directory under DIR's name, as if its host had one of its own.
  void GiveDir(const std::string& task, const std::string& dir) { dirs_[task] = dir; }
  // Sets the address that others are told of a task if it differs from its own (a proxy).
  void Announce(const std::string& task, const std::string& address);

  // Restarts, as a supervisor does, every process that was killed or left with 128 and above, and
  // returns these.
  std::vector<std::pair<std::string, Exit>> Supervise();
  // Supervises until the leader leaves with a code below 128, and returns that code, or -1 at
  // the time-out.
  int Finish(int64_t wait_ms = 60000);
  bool WaitAllGone(int64_t wait_ms);  // of who is left, the end of its log is shown
  void KillAll();

  // Returns the status that `paracord status` would show; null without an answer.
  nlohmann::json Status();
  // Returns the newest status' entry of a task, such as ps:0.
  nlohmann::json StatusOf(const std::string& kind, const std::string& task);
  uint64_t BatchesDone();
  bool WaitForBatches(uint64_t batches, int64_t wait_ms = 30000);
  // Returns the answer of a ps to Describe, asked at its own address.
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
  std::map<std::string, std::string> dirs_;  // of those that have another DIR
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::map<std::string, std::unique_ptr<Link>> links_;
};

std::string FreeTcpAddress();

}  // namespace paracord::e2e
