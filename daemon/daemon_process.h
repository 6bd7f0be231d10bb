// The common part of every daemon's main: flags, its task in the cluster, logging, signals, the
// real environment (common/environment.h), and the exit. Used on main's thread.
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

// The flags shared by all daemons, and their values.
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
  // Returns the value of --memory-limit. Without the flag, nine tenths of the limit of the
  // process's control groups or of the machine's memory, to leave room for other processes, but not
  // less than `least`. INVALID_ARGUMENT: the flag is no number of bytes, or below `least`.
  absl::StatusOr<uint64_t> MemoryLimit(uint64_t least = MemoryBudget::kLimitMin) const;
};

// Finds the cluster (--cluster or TF_CONFIG) and this process's task (--task or TF_CONFIG), and
// checks the flags of the log and of addresses. INVALID_ARGUMENT names the setting that is missing
// or wrong. Other errors are those of reading the file.
absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags);

// Returns the output of --version: the program, its version and its protocol version.
std::string VersionText(const std::string& program);

// Parses the flags of a daemon, `shared` among them. Returns the exit code if the flags were wrong,
// or asked for help or the version. With --restarts, this process becomes the parent of the daemon
// and restarts it where a restart may help (daemon/restarts.h): then it returns the exit code in
// the parent, and nullopt in the daemon. Called before any thread starts.
std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv, const DaemonFlags& shared = {});

// Sets up logging and with --trace the trace, and checks that the process may have descriptors for
// `peers` peers. Called before the daemon starts threads. Returns an exit code on failure, which it
// has printed.
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
// SetUpSecurity for a daemon. Where the present certificate has expired or does not fit its key,
// waits for better files, and logs the wait. Meanwhile supervisors on this host get answers about
// liveness at `address`, where the daemon will listen; "": it will not listen. UNAVAILABLE: no
// better files came in ten minutes. CANCELLED: one of LeaveSignals() came.
absl::Status AwaitSecurity(const DaemonFlags& flags, const std::string& task,
                           const std::string& address, GrpcOptions& grpc);
// The exit code for an error of AwaitSecurity: one after which a restart may help if it is
// UNAVAILABLE.
ExitCode SecurityExitCode(const absl::Status& status);

// Serves at --http what `source` shows, and logs where; null without --http. Errors are for
// ListenExitCode.
absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const DaemonFlags& flags, const Task& task,
                                                      Daemon& daemon, MonitorSource source);

// Flushes output and ends the process without running destructors of static objects, because gRPC's
// threads may still use the objects.
[[noreturn]] void LeaveProcess(int exit_code);

// The signals that ask a daemon to leave: SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless
// the process ignores that (nohup).
sigset_t LeaveSignals();
// Blocks LeaveSignals() in this thread and the threads that it starts later. Otherwise a thread of
// a GPU driver could take the signal for which Run waits.
void BlockLeaveSignals();
std::string SignalName(int signal);  // such as "SIGTERM"

// Prints the message of `status` as the program's last line, and returns the number of `code`.
int Complain(const char* program, const absl::Status& status, ExitCode code);

// Returns the host name, for messages; "" if there is none.
std::string HostName();

// Warns if `own`, the address under `key` of the cluster for `task`, is a loopback address, and the
// cluster has tasks on other hosts, for which it is unreachable.
void WarnOfOwnLoopback(const Logger& log, const std::string& task, const std::string& key,
                       const std::string& own, const Cluster& cluster);

// Warns if `expected`, the address that the cluster has under `key` for `task`, has another port
// than `address`, at which the daemon listens. `expected` is "" if the cluster has none.
void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address);

// The exit code for an error of Daemon::Listen or StartMonitor: the address is in use, cannot be
// listened at, or a signal asked the process to leave meanwhile.
ExitCode ListenExitCode(const absl::Status& status);

class Daemon {
 public:
  // Blocks the signals for which Run waits. Must be constructed before any other thread is started.
  // Requests and receive buffers take their memory from `memory`, whatever the options say.
  explicit Daemon(GrpcOptions options = {},
                  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>());

  Environment environment() { return {loop_, shared_network_, files_, executor_, random_}; }

  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  // Null if connections are plain text.
  const std::shared_ptr<Credentials>& credentials() const { return network_.credentials(); }
  const std::shared_ptr<RefusedPeers>& refused() const { return network_.refused(); }
  // The limit of requests' memory. Listeners that this network does not own count their requests
  // here, too.
  const std::shared_ptr<RequestBudget>& request_budget() const { return network_.request_budget(); }

  // Listens at an address. While its name does not resolve to an address of this machine, tries
  // again for a minute and logs the wait: a pod starts before its name is known, and name servers
  // may still have its former address. INVALID_ARGUMENT: after that minute. CANCELLED: one of
  // LeaveSignals() came meanwhile. Other errors as GrpcNetwork::Listen.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, Service& service,
                                                   const Logger& log);

  // Makes the job's directory `dir` while the loop runs. After errors that may pass, tries again
  // each second, and logs the first (unless `said`); errors that only a person can mend end Run.
  void MakeDir(const std::string& dir, const Logger& log, bool said = false);
  // Answers supervisors on this host who ask at `address`, where the daemon listens, for its
  // health.
  void AnswerLocally(const std::string& address, const std::string& task,
                     std::function<HealthState()> health);

  // Ends Run, which returns `exit_code`. The role gets this function as its way to exit.
  void Exit(int exit_code, const std::string& reason);
  // Makes a check that ends Run with kListenerDeaf if `address` accepts no connections any more.
  // The check must be destroyed before this daemon.
  std::unique_ptr<ListenerCheck> CheckListener(const std::string& address);
  // Runs the loop until Exit. The first of LeaveSignals() calls `drain` on the loop with the name
  // of the signal. Another one, more than a second later, ends the process at once, except SIGHUP,
  // which both a shell and the kernel send.
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
