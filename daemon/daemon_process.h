// What the main functions of all daemons share: flags, the task in the cluster, logging, signals,
// the real environment (common/environment.h), and the exit. Used on main's thread.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/environment.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/memory_budget.h"
#include "common/thread_loop.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "daemon/security_flags.h"
#include "monitor/local_health.h"
#include "monitor/monitor.h"
#include "net/grpc/network.h"
#include "net/listener_check.h"
#include "net/shared_network.h"
#include "objects/all_files.h"

namespace paracord {

class Daemon;

// The flags that all daemons have, and their values.
struct DaemonFlags {
  std::string cluster_file;
  std::string task;
  std::string dir;
  std::string listen;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string trace;
  SecurityOptions security;
  std::string http;
  std::string memory_limit;
  int64_t restarts = 0;

  void AddTo(Flags& flags);
  // Returns the value of --memory-limit. Without the flag, returns nine tenths of what this process
  // may use (the limit of its control groups, or the machine's memory), but not less than `least`.
  // INVALID_ARGUMENT: the flag's value is no number of bytes, or is below `least`.
  absl::StatusOr<uint64_t> MemoryLimit(uint64_t least = MemoryBudget::kLimitMin) const;
};

// Finds the cluster (--cluster or TF_CONFIG) and this process's task (--task or TF_CONFIG), and
// checks the flags of the log and of addresses. INVALID_ARGUMENT names the setting that is missing
// or wrong. Other errors are those of reading the file of --cluster.
absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags);

// Returns the output of --version: the program, its version and its protocol version.
std::string VersionText(const std::string& program);

// Parses the flags of a daemon, to which `shared` has been added. Returns the exit code if the
// flags are wrong, or ask for help or the version. With --restarts, this process forks the daemon,
// restarts it where a restart may help (daemon/restarts.h), and at last returns the exit code; the
// daemon returns nullopt, as without --restarts. Called before any thread starts.
std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv, const DaemonFlags& shared = {});

// Sets up logging and with --trace the trace, and checks that the process may have descriptors for
// `peers` peers. Called before the daemon starts threads. On failure, prints the error and returns
// an exit code.
std::optional<int> SetUpOrExit(const DaemonFlags& flags, const Task& task, size_t peers,
                               const char* program);

// Runs `main` and leaves with its exit code, or with kFailed instead of 0 if standard output did
// not take all that was printed. If memory runs out, the process prints so before it ends by
// SIGABRT.
[[noreturn]] void RunProgram(int argc, char** argv, int (*main)(int argc, char** argv));

// Whether a daemon with these options serves HTTPS at `address` (--http): a certificate is
// configured, and other machines can reach the address.
bool ServesHttps(const std::string& address, const SecurityOptions& security);
// Checks the HTTP address of a daemon (--http), which may be "". Plain text is allowed on a
// loopback address or with --insecure; other addresses need a certificate for HTTPS.
// INVALID_ARGUMENT names the address.
absl::Status CheckHttp(const std::string& address, const SecurityOptions& security);
// SetUpSecurity for a daemon. If the present certificate has expired or does not fit its key, waits
// for better files, and logs the wait. Meanwhile supervisors on this host that ask at `address`
// learn that the daemon lives; the daemon will listen there ("": it will not listen). UNAVAILABLE:
// no better files came in ten minutes. CANCELLED: one of LeaveSignals() came during the wait.
absl::Status AwaitSecurity(const DaemonFlags& flags, const std::string& task,
                           const std::string& address, GrpcOptions& grpc);
// Returns the exit code for an error of AwaitSecurity. The code for UNAVAILABLE is one after which
// a restart may help.
ExitCode SecurityExitCode(const absl::Status& status);

// Serves what `source` shows at the address of --http, and logs the address. Returns null without
// --http. ListenExitCode returns the exit code for an error.
absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const DaemonFlags& flags, const Task& task,
                                                      Daemon& daemon, MonitorSource source);

// Flushes output and ends the process without running destructors of static objects, because gRPC's
// threads may still use the objects.
[[noreturn]] void LeaveProcess(int exit_code);

// The signals that ask a daemon to leave: SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless
// the process ignores SIGHUP (nohup).
sigset_t LeaveSignals();
// Blocks LeaveSignals() in this thread and the threads that it starts later. Otherwise a thread of
// a GPU driver could take the signal for which Run waits.
void BlockLeaveSignals();
std::string SignalName(int signal);  // such as "SIGTERM"

// Prints `program` and the message of `status` to standard error, and returns `code` as a number.
int Complain(const char* program, const absl::Status& status, ExitCode code);

// Returns the name of this host, or "" if the system does not tell.
std::string HostName();

// Warns if `own`, the address under `key` of the cluster for `task`, is a loopback address although
// the cluster has tasks on other hosts, which cannot reach a loopback address here.
void WarnOfOwnLoopback(const Logger& log, const std::string& task, const std::string& key,
                       const std::string& own, const Cluster& cluster);

// Warns if `expected`, the address that the cluster has under `key` for `task`, has another port
// (or path of a unix socket) than `address`, at which the daemon listens. `expected` is "" if the
// cluster has none.
void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address);

// Returns the exit code for an error of Daemon::Listen or StartMonitor, which differs for an
// address in use, for a signal to leave, and for all other errors.
ExitCode ListenExitCode(const absl::Status& status);

class Daemon {
 public:
  // Blocks the signals for which Run waits. Must be constructed before any other thread is started.
  // Requests and receive buffers take their memory from `memory`, whatever `options` say.
  explicit Daemon(GrpcOptions options = {},
                  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>());

  Environment environment() { return {loop_, shared_network_, files_, executor_, random_}; }

  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  // Null if connections are plain text.
  const std::shared_ptr<Credentials>& credentials() const { return network_.credentials(); }
  const std::shared_ptr<RefusedPeers>& refused() const { return network_.refused(); }
  // The limit of requests' memory. Whoever receives requests other than by Listen, such as by
  // shared memory, counts them here, too.
  const std::shared_ptr<RequestBudget>& request_budget() const { return network_.request_budget(); }

  // Listens at `address`. While its name does not resolve to an address of this machine, tries
  // again for a minute and logs the wait: a pod starts before its name is known, and name servers
  // may still have its former address. INVALID_ARGUMENT: the minute has passed. CANCELLED: one of
  // LeaveSignals() came meanwhile. Other errors as GrpcNetwork::Listen.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, Service& service,
                                                   const Logger& log);

  // Makes the job's directory `dir` while the loop runs. After an error that may pass, tries again
  // each second, and logs the first such error unless `said`. An error that only a person can mend
  // ends Run.
  void MakeDir(const std::string& dir, const Logger& log, bool said = false);
  // Tells supervisors on this host the daemon's health when they ask at `address`, where the daemon
  // listens.
  void AnswerLocally(const std::string& address, const std::string& task,
                     std::function<HealthState()> health);

  // Logs `reason` and ends Run, which returns `exit_code`.
  void Exit(int exit_code, const std::string& reason);
  // Makes a check that ends Run with kListenerDeaf if the listener at `address` accepts no
  // connections any more. The check must be destroyed before this daemon.
  std::unique_ptr<ListenerCheck> CheckListener(const std::string& address);
  // Runs the loop until Exit. After the first of LeaveSignals(), the loop calls `drain` with the
  // name of the signal. A SIGTERM or SIGINT more than a second later ends the process at once. A
  // later SIGHUP does not, because a shell and the kernel may both send one.
  int Run(std::function<void(const std::string& signal)> drain);

 private:
  static bool Prepare(const MemoryBudget& memory);
  void GiveBack(uint64_t before_bytes, int looks);

  const std::shared_ptr<MemoryBudget> memory_;
  const bool prepared_;  // initialised before members that start threads
  ThreadLoop loop_;
  GrpcNetwork network_;
  SharedNetwork shared_network_{network_};
  AllFiles files_;
  ThreadExecutor executor_;
  SystemRandom random_;
  std::unique_ptr<Monitor> local_health_;
  int exit_code_ = 0;
};

}  // namespace paracord
