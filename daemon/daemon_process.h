// The common part of every daemon's main: flags, the place in the cluster, logging, signals, the
// real environment, and the exit. Used on main's thread.
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

// The flags shared by all daemons.
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
  // Returns the value of --memory-limit or, without the flag, nine tenths of the limit of the
  // process's control groups or of the machine's memory, leaving room for other processes.
  // INVALID_ARGUMENT: the flag is below `least`.
  absl::StatusOr<uint64_t> MemoryLimit(uint64_t least = MemoryBudget::kLimitMin) const;
};

// Finds the cluster (--cluster or TF_CONFIG) and this process's task (--task or TF_CONFIG).
// INVALID_ARGUMENT names the missing setting.
absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags);

// The output of --version: the program, its version and its protocol version.
std::string VersionText(const std::string& program);

// Parses the flags of a daemon, including `shared`. Returns the exit code if the flags were wrong,
// or asked for help or the version. With --restarts, this process becomes the parent and restarts
// the daemon where a restart may help: the parent gets the exit code, the daemon nullopt. Called
// before any thread starts.
std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv, const DaemonFlags& shared = {});

// Sets up logging and, if wanted, the trace, and checks that there are descriptors for that many
// peers. Called before the daemon starts threads; returns an exit code on failure.
std::optional<int> SetUpOrExit(const DaemonFlags& flags, const Task& task, size_t peers,
                               const char* program);

// Runs `main` and leaves with its exit code, or with kFailed instead of 0 if standard output did
// not take all that was printed. If memory runs out, that is printed before the process ends by
// SIGABRT.
[[noreturn]] void RunProgram(int argc, char** argv, int (*main)(int argc, char** argv));

// True if a daemon with these options serves HTTPS at `address` (--http): a certificate is
// configured and other machines can reach the address.
bool ServesHttps(const std::string& address, const SecurityOptions& security);
// Checks the HTTP address of a daemon (--http). Plain text is allowed on a loopback address or
// under --insecure; other addresses need a certificate for HTTPS. INVALID_ARGUMENT names the
// address.
absl::Status CheckHttp(const std::string& address, const SecurityOptions& security);
// Like SetUpSecurity, but waits for a better certificate or key where the present files have
// expired or do not fit, and logs the wait. Meanwhile supervisors on this host get liveness answers
// at `address`, where the daemon will listen; "" for one that does not. UNAVAILABLE after ten
// minutes.
absl::Status AwaitSecurity(const DaemonFlags& flags, const std::string& task,
                           const std::string& address, GrpcOptions& grpc);
// The exit code if the certificates cannot be used: a restart may help where time does.
ExitCode SecurityExitCode(const absl::Status& status);

// Starts what --http shows, and logs where. On failure returns an error for ListenExitCode.
absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const DaemonFlags& flags, const Task& task,
                                                      Daemon& daemon, MonitorSource source);

// Flushes output and ends the process without running destructors of static objects, which gRPC's
// threads may still use.
[[noreturn]] void LeaveProcess(int exit_code);

// The signals that ask a daemon to leave: SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless
// ignored (nohup).
sigset_t LeaveSignals();
// Blocks LeaveSignals in this thread and its future threads. A GPU driver's threads would otherwise
// take the signal from the thread waiting in Run.
void BlockLeaveSignals();
std::string SignalName(int signal);  // "SIGTERM"

// Prints `status` as the program's last line and returns its exit code.
int Complain(const char* program, const absl::Status& status, ExitCode code);

// Returns the host name, for messages.
std::string HostName();

// Warns if `own`, the address under `key` of the cluster for `task`, is a loopback address,
// unreachable for tasks on other hosts.
void WarnOfOwnLoopback(const Logger& log, const std::string& task, const std::string& key,
                       const std::string& own, const Cluster& cluster);

// Warns if `expected`, the address under `key` of the cluster for `task`, has another port than the
// listening `address`. `expected` is "" if the cluster names none.
void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address);

// The exit code for a failed Listen: the address is in use, belongs to another machine, or a signal
// asked the process to leave meanwhile.
ExitCode ListenExitCode(const absl::Status& status);

class Daemon {
 public:
  // Blocks the signals taken by Run. Must be constructed before any other thread is started.
  // Requests and receive buffers draw from `memory`, whatever the options say.
  explicit Daemon(GrpcOptions options = {},
                  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>());

  Environment environment() { return {loop_, shared_network_, files_, executor_, random_}; }

  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  // Null where connections are plain text.
  const std::shared_ptr<Credentials>& credentials() const { return network_.credentials(); }
  const std::shared_ptr<RefusedPeers>& refused() const { return network_.refused(); }
  // The request budget; listeners outside this network count their requests here, too.
  const std::shared_ptr<RequestBudget>& request_budget() const { return network_.request_budget(); }

  // Listens at an address. If the name does not resolve to this machine, retries for a minute and
  // logs the wait: a pod starts before its name is known, and name servers may still return its
  // previous address. CANCELLED: one of LeaveSignals() came meanwhile.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, Service& service,
                                                   const Logger& log);

  // Makes the job's directory while the loop runs. Retries, and logs once, errors that may pass;
  // ends Run on errors that only a person can mend.
  void MakeDir(const std::string& dir, const Logger& log, bool said = false);
  // Tells supervisors on this host the health of the daemon listening at `address`.
  void AnswerLocally(const std::string& address, const std::string& task,
                     std::function<HealthState()> health);

  // Ends Run; passed to the role as its way to exit.
  void Exit(int exit_code, const std::string& reason);
  // Makes a check that ends Run with kListenerDeaf if `address` no longer accepts connections.
  // Destroy the check before this daemon.
  std::unique_ptr<ListenerCheck> CheckListener(const std::string& address);
  // Runs the loop until Exit. The first of LeaveSignals() calls `drain` on the loop with its name;
  // a second one ends the process at once, except SIGHUP, which both a shell and the kernel send.
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
