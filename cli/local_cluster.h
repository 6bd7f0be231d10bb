// The daemons of a cluster on this machine: processes that are restarted when they die, and drained
// in the order of their roles. Ctrl-C does not reach the daemons, which have sessions of their own.
// With SshOptions, the processes are ssh's, and the daemons run on the hosts. In a cluster without
// ps, workers hold the variables and worker:0 is also the coordinator. Used in one thread.
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

// A restart may help a daemon that left with this exit code or a larger one.
inline constexpr int kRestartMayHelp = 128;

struct LocalClusterOptions {
  std::string bin_dir;   // where the daemons' programs are
  std::string job_file;  // absolute path
  std::string dir;       // absolute path of an existing directory
  uint32_t ps = 1;       // 0: workers hold the variables
  uint32_t workers = 1;
  bool evaluator = false;  // also starts an evaluator
  std::string device = "auto";
  // Computing threads of each worker; nullopt: a share of the machine's.
  std::optional<int64_t> threads;
  std::string memory_limit;                 // --memory-limit of each daemon; "": its default
  std::vector<std::string> accept_changes;  // --accept-change of the coordinator
  std::string log_level = "info";
  std::string http;                     // address of the coordinator's status page; "": no page
  std::string trace_dir;                // directory where each daemon writes a trace; "": no traces
  std::string vmstat = "/proc/vmstat";  // the file with the kernel's count of out-of-memory kills
  std::optional<SshOptions> ssh;  // the hosts of the daemons, which share `dir`; nullopt: here
  std::string certs;        // folder with ca.crt and worker-0.crt, worker-0.key, ...; "": no TLS
  bool insecure = false;    // the daemons may speak plain text to other hosts
  int64_t sound_ms = 5000;  // how long a life has to be for Reap() to count restarts anew
};

// Returns the task whose process contains the coordinator.
Task LeaderOf(const LocalClusterOptions& options);
// Returns the name of a task's files, such as "worker-0".
std::string FileName(const Task& task);

// Replaces port 0 in an address by a port that is free now, so that the address can be shown before
// a daemon listens there. Returns `address` unchanged if that fails.
std::string WithPort(const std::string& address);

// Returns the options for the certificate NAME.crt in `certs`, a folder made by deploy/certs;
// without a certificate if `certs` is empty.
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
    std::string how;   // "exit code 3", "signal 9", with the reason if it is known
    int code = 0;      // the exit code, or 128 + the signal
    std::string then;  // such as "and was restarted"; "": it is not restarted
    std::string log;   // path of the log
    // The daemon left because of an error that ends the job, or because the job had ended. How the
    // job ends is shown by itself, so this death need not be shown.
    bool ends_job = false;
  };
  // Collects ended processes, and restarts those that a restart may help, at most kRestartsMax
  // times each: first at once, then after growing pauses. The count of a process begins anew if it
  // lived for `sound_ms` and meanwhile the job got further than ever before, so that replayed
  // batches cannot keep a crash loop going. A failed start counts as a death. To be called
  // repeatedly.
  std::vector<Death> Reap();
  // Reports how many batches the job's ledgers have now: fewer than before after a ps was restored.
  void BatchesApplied(uint64_t applied) { furthest_ = std::max(furthest_, applied); }
  // The first daemon that is not restarted although the job needs it: a holder of variables, the
  // last worker, or a coordinator that was killed too often. Never a daemon that exited with 0:
  // then the job is done.
  const std::optional<Death>& given_up() const { return given_up_; }

  // The coordinator's exit code once it has left by itself, which ends the job; nullopt before.
  std::optional<int> coordinator_exit() const { return coordinator_exit_; }
  bool WaitForCoordinator(int64_t wait_ms) {
    return WaitFor(Role::kCoordinator, wait_ms) == Waited::kGone;
  }
  bool EvaluatorRuns() const { return Running(Role::kEvaluator); }
  bool CoordinatorRuns() const { return Running(Role::kCoordinator); }
  // Sends `signal` to the workers, the evaluator, the coordinator and the ps, in this order: to
  // each group once the group before has left or `group_ms` has passed, or sooner without a
  // coordinator that could take a checkpoint. Without ps all daemons get the signal at once,
  // because the nodes need each other. Meanwhile calls `goes_on` repeatedly with the names of the
  // group's remaining tasks and its remaining time; if `goes_on` returns false, kills all daemons.
  using GoesOn = std::function<bool(const std::string& tasks, int64_t left_ms)>;
  void Drain(int64_t group_ms, int signal, const GoesOn& goes_on);
  // Waits until all daemons have left. After `wait_ms` the remaining ones get SIGTERM, and SIGKILL
  // after `wait_ms` more; if `wait_ms` is 0, SIGKILL at once.
  void WaitAll(int64_t wait_ms);

  static constexpr uint32_t kRestartsMax = 5;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Process {
    Task task;
    pid_t pid = 0;  // 0: not running
    uint32_t starts = 0;
    uint32_t restarts = 0;  // since it last lived for `sound_ms` while the job got further
    uint64_t furthest = 0;  // `furthest_` of the cluster when this process was started
    Time started_at = Time();
    std::optional<Time> restart_at = std::nullopt;
    std::unique_ptr<SshDaemon> remote = nullptr;  // null without hosts
  };
  bool nodes() const { return options_.ps == 0; }
  // Returns the task's role; kCoordinator for a worker that is the coordinator, too.
  Role PartOf(const Task& task) const;
  // Restarts the process or gives it up; `then` of the result says which.
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
  // Whether a process of the role (nullopt: any role) runs or waits for its restart.
  bool Running(std::optional<Role> role) const;
  std::string Tasks(std::optional<Role> role) const;  // names of running tasks of the role
  enum class Waited { kGone, kTimeIsOver, kStopped };
  Waited WaitFor(std::optional<Role> role, int64_t wait_ms, const GoesOn& goes_on = nullptr);

  const LocalClusterOptions options_;
  const std::optional<SshHosts> hosts_;
  std::unique_ptr<SocketDir> sockets_;  // null with hosts
  std::string coordinator_address_;
  std::string tf_config_;
  std::vector<Process> processes_;
  uint64_t furthest_ = 0;   // the most batches that the job's ledgers have had
  uint64_t oom_kills_ = 0;  // the kernel's count at the last look
  Time oom_killed_at_ = Time::min();
  bool draining_ = false;
  std::optional<int> coordinator_exit_;
  std::optional<Death> given_up_;
};

}  // namespace paracord
