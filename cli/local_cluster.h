// The daemons of a cluster on this machine: processes, restarted when they die, and drained in
// order; each has a session of its own, and Ctrl-C reaches only this process. With hosts, the
// processes are ssh's, and the daemons run on the hosts. In a cluster without ps, workers hold the
// variables and worker:0 is also the coordinator. Used in one thread.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/socket_dir.h"
#include "cli/ssh_daemon.h"
#include "cli/ssh_hosts.h"
#include "config/cluster.h"
#include "security/security_options.h"

namespace paracord {

inline constexpr int kRestartMayHelp =
    128;  // A restart may help after this exit code and all above.

struct LocalClusterOptions {
  std::string bin_dir;   // where the daemons' programs are
  std::string job_file;  // absolute
  std::string dir;       // absolute, exists
  uint32_t ps = 1;       // 0: workers hold the variables
  uint32_t workers = 1;
  bool evaluator = false;  // scores checkpoints
  std::string device = "auto";
  std::optional<int64_t> threads;           // threads a worker; none: a share of the machine's
  std::string memory_limit;                 // limit of each process; "": by its machine
  std::vector<std::string> accept_changes;  // files of the job's program, for the coordinator
  std::string log_level = "info";
  std::string http;                     // where the coordinator shows its status page; "": nowhere
  std::string trace_dir;                // where each daemon process writes its spans; "": none
  std::string vmstat = "/proc/vmstat";  // has the kernel's count of out-of-memory kills
  std::optional<SshOptions> ssh;        // the daemons run on these hosts; they see `dir` there
  std::string certs;                    // has TASK.crt, TASK.key and ca.crt; "": no TLS
  bool insecure = false;                // the daemons speak plain text to other hosts
  int64_t sound_ms = 5000;  // A daemon that dies sooner is restarted a bounded number of times.
};

// Returns the task whose process has the coordinator.
Task LeaderOf(const LocalClusterOptions& options);
// Returns the name of a task's files, such as "worker-0".
std::string FileName(const Task& task);

// Replaces port 0 in an address by a port that is free now, so that the address can be told.
std::string WithPort(const std::string& address);

// Returns the options for the certificate NAME.crt in a folder made by deploy/certs.
SecurityOptions SecurityOf(const std::string& certs, const std::string& name, bool insecure);

class LocalCluster {
 public:
  explicit LocalCluster(LocalClusterOptions options);
  ~LocalCluster();  // kills remaining processes
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  absl::Status Start();
  const std::string& coordinator_address() const { return coordinator_address_; }

  struct Death {
    std::string task;
    std::string how;   // "exit code 3", "signal 9", with the kernel's reason if it had one
    int code = 0;      // 128 + the signal
    std::string then;  // "and was restarted"; "": was not
    std::string log;   // path of the log
    // The daemon left because of an error that ends the job, or because the job had ended. The
    // job's own end explains the reason, so this death is not reported.
    bool ends_job = false;
  };
  // Collects ended processes, and restarts those that a restart may help, at most kRestartsMax
  // times each: first at once, then after growing pauses. The count starts again after a process
  // lived for `sound_ms` and the job got further than ever, so that replayed batches cannot keep a
  // crash loop going. A failed start counts as a death. To be called repeatedly.
  std::vector<Death> Reap();
  // Tells the batches in the job's ledgers, which drop when a ps is restored.
  void BatchesApplied(uint64_t applied) { furthest_ = std::max(furthest_, applied); }
  // The first daemon that is not restarted although the job needs it: a holder of variables, the
  // last worker, or a killed coordinator. Never a daemon that exited with 0: then the job is done.
  const std::optional<Death>& given_up() const { return given_up_; }

  // The coordinator's exit code, once the job has ended.
  std::optional<int> coordinator_exit() const { return coordinator_exit_; }
  bool WaitForCoordinator(int64_t wait_ms) {
    return WaitFor(Role::kCoordinator, wait_ms) == Waited::kGone;
  }
  bool EvaluatorRuns() const { return Running(Role::kEvaluator); }
  bool CoordinatorRuns() const { return Running(Role::kCoordinator); }
  // Sends `signal` to the workers, the evaluator, the coordinator and the ps, in this order: to
  // each group once the group before has left or `group_ms` has passed, or sooner without a
  // coordinator that could take a checkpoint. Without ps all get the signal at once, because the
  // nodes need each other. Meanwhile calls `goes_on` repeatedly with the remaining tasks and their
  // time left; when `goes_on` returns false, all are killed.
  using GoesOn = std::function<bool(const std::string& tasks, int64_t left_ms)>;
  void Drain(int64_t group_ms, int signal, const GoesOn& goes_on);
  // Waits until all daemons have left. After `wait_ms` the remaining ones get SIGTERM, and SIGKILL
  // after `wait_ms` more.
  void WaitAll(int64_t wait_ms);

  static constexpr uint32_t kRestartsMax = 5;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Process {
    Task task;
    pid_t pid = 0;  // 0: not running
    uint32_t starts = 0;
    uint32_t restarts = 0;  // since the last sound life
    uint64_t furthest = 0;  // batches of the job when this process was started
    Time started_at = Time();
    std::optional<Time> restart_at = std::nullopt;
    std::unique_ptr<SshDaemon> remote = nullptr;  // with hosts
  };
  bool nodes() const { return options_.ps == 0; }
  // Returns the task's role, but kCoordinator for the worker that is the coordinator, too.
  Role PartOf(const Task& task) const;
  // Restarts the process or gives it up; the result tells.
  Death AfterDeath(Process& process, int code, std::string how);
  bool MayRestart(const Process& process, int code) const;
  std::string HowEnded(const Process& process, int status) const;
  void BeginDraining();
  absl::Status Launch(Process& process);
  absl::StatusOr<pid_t> Spawned(Process& process);
  std::string LogPath(const Task& task) const;
  int OpenLog(const Task& task) const;
  std::vector<std::string> Arguments(const Process& process) const;
  uint32_t Threads(const Task& task) const;
  void Signal(std::optional<Role> role, int signal);
  void EndConnections();
  bool Running(std::optional<Role> role) const;       // or about to start
  std::string Tasks(std::optional<Role> role) const;  // names of running tasks
  enum class Waited { kGone, kTimeIsOver, kStopped };
  Waited WaitFor(std::optional<Role> role, int64_t wait_ms, const GoesOn& goes_on = nullptr);

  const LocalClusterOptions options_;
  const std::optional<SshHosts> hosts_;
  std::unique_ptr<SocketDir> sockets_;  // without hosts
  std::string coordinator_address_;
  std::string tf_config_;
  std::vector<Process> processes_;
  uint64_t furthest_ = 0;   // the most batches that the job's ledgers have had
  uint64_t oom_kills_ = 0;  // on the whole machine
  Time oom_killed_at_ = Time::min();
  bool draining_ = false;
  std::optional<int> coordinator_exit_;
  std::optional<Death> given_up_;
};

}  // namespace paracord
