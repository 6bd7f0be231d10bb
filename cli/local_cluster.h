// The daemons of a cluster on this machine. Each is a child process, which may be restarted when it
// dies. A drain stops them role by role, or all at once without ps. Ctrl-C does not reach them, as
// they have sessions of their own. With SshOptions the child processes are ssh, and the daemons run
// on other hosts. In a cluster without ps, workers hold the variables and worker:0 is also the
// coordinator. Used in one thread.
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

// A restart may help a daemon that exited with this code or a larger one.
inline constexpr int kRestartMayHelp = 128;

struct LocalClusterOptions {
  std::string bin_dir;   // folder of the daemons' programs
  std::string job_file;  // absolute path
  std::string dir;       // absolute path of an existing directory
  uint32_t ps = 1;       // 0: workers hold the variables
  uint32_t workers = 1;
  bool evaluator = false;  // also starts an evaluator
  std::string device = "auto";
  // Computing threads of each worker and evaluator; nullopt: a share of its machine's processors.
  std::optional<int64_t> threads;
  std::string memory_limit;                 // --memory-limit of each daemon; "": its default
  std::vector<std::string> accept_changes;  // --accept-change of the coordinator
  std::string log_level = "info";
  std::string http;                     // address of the coordinator's status page; "": no page
  std::string trace_dir;                // directory where each daemon writes a trace; "": no traces
  std::string vmstat = "/proc/vmstat";  // has the number of out-of-memory kills
  // The hosts where the daemons run, which share `dir`; nullopt: all run on this machine.
  std::optional<SshOptions> ssh;
  std::string certs;      // folder with ca.crt, worker-0.crt, worker-0.key, ...; "": no TLS
  bool insecure = false;  // the daemons may speak plain text to other hosts
  // How long a daemon has to live, while the job gets further, until Reap() forgets its restarts.
  int64_t sound_ms = 5000;
};

// Returns the task whose process contains the coordinator.
Task LeaderOf(const LocalClusterOptions& options);
// Returns the name of a task's files, such as "worker-0".
std::string FileName(const Task& task);

// Returns `address`, with a port that is free now in place of port 0, so that the address can be
// shown before a daemon listens there. Returns `address` unchanged if no port can be found.
std::string WithPort(const std::string& address);

// Returns the options for the certificate `name`.crt in `certs`, a folder made by deploy/certs. If
// `certs` is empty, returns options without a certificate.
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
    std::string how;   // "exit code 3" or "signal 9", and the reason if known, or why no start
    int code = 0;      // the exit code, or 128 + the signal
    std::string then;  // such as "and was restarted"; "": the daemon stays away
    std::string log;   // path of the log
    // The daemon exited because of an error that ends the job, or because the job had ended. The
    // end of the job is shown anyway, so that this death need not be shown.
    bool ends_job = false;
  };
  // Collects ended processes, and restarts those that a restart may help, each at most kRestartsMax
  // times: first at once, then after growing pauses. The count of a process's restarts begins anew
  // if the process lived for `sound_ms` and, in that time, the job had more batches applied than
  // ever before, so that replayed batches cannot keep a crash loop going. A failed start counts as
  // a death. The caller calls Reap repeatedly.
  std::vector<Death> Reap();
  // To be called with the number of batches that the job has applied. The largest number counts:
  // after a ps was restored it may be smaller than before.
  void BatchesApplied(uint64_t applied) { furthest_ = std::max(furthest_, applied); }
  // The first daemon that is not restarted although the job needs it: a process that holds
  // variables, the last worker, or a coordinator that was killed too often. Nullopt while there is
  // none. A daemon that exited with 0 is not given up: the job is done.
  const std::optional<Death>& given_up() const { return given_up_; }

  // The coordinator's exit code once it has exited by itself, with a code below kRestartMayHelp,
  // which ends the job; nullopt before.
  std::optional<int> coordinator_exit() const { return coordinator_exit_; }
  bool WaitForCoordinator(int64_t wait_ms) {
    return WaitFor(Role::kCoordinator, wait_ms) == Waited::kGone;
  }
  bool EvaluatorRuns() const { return Running(Role::kEvaluator); }
  bool CoordinatorRuns() const { return Running(Role::kCoordinator); }
  // Sends `signal` to the workers, then the evaluator, the coordinator and the ps: to each group
  // once all of the group before have left or `group_ms` has passed (at most 2 s if no coordinator
  // runs that could take a checkpoint). Without ps all daemons get the signal at once, because the
  // workers need each other. While waiting, calls `goes_on` repeatedly with the names of the
  // group's remaining tasks and the remaining time; if `goes_on` returns false, kills all daemons.
  using GoesOn = std::function<bool(const std::string& tasks, int64_t left_ms)>;
  void Drain(int64_t group_ms, int signal, const GoesOn& goes_on);
  // Waits until all daemons have left. After `wait_ms` sends SIGTERM to the remaining ones, and
  // SIGKILL after another `wait_ms`. If `wait_ms` is 0, sends SIGKILL at once.
  void WaitAll(int64_t wait_ms);

  static constexpr uint32_t kRestartsMax = 5;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Process {
    Task task;
    pid_t pid = 0;  // 0: not running
    uint32_t starts = 0;
    // Number of restarts since the process last lived for `sound_ms` while the job got further.
    uint32_t restarts = 0;
    uint64_t furthest = 0;  // `furthest_` of the cluster when this process was started
    Time started_at = Time();
    std::optional<Time> restart_at = std::nullopt;
    std::unique_ptr<SshDaemon> remote = nullptr;  // null without hosts
  };
  bool nodes() const { return options_.ps == 0; }
  // Returns the task's role; kCoordinator for a worker that is also the coordinator.
  Role PartOf(const Task& task) const;
  // Plans a restart of the process, or gives it up; `then` of the result says which.
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
  uint64_t oom_kills_ = 0;  // number of out-of-memory kills at the last look
  Time oom_killed_at_ = Time::min();
  bool draining_ = false;
  std::optional<int> coordinator_exit_;
  std::optional<Death> given_up_;
};

}  // namespace paracord
