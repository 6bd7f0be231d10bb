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
#include "monitor/local_health.h"
#include "monitor/monitor.h"
#include "net/grpc/network.h"
#include "net/grpc/security_flags.h"
#include "net/listener_check.h"
#include "net/shared_network.h"
#include "objects/all_files.h"

namespace paracord {

class Daemon;

// The flags that all daemons share.
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
  // Returns what --memory-limit says, or else nine tenths of what the process's control groups let
  // it have or the machine has, which other processes use as well. INVALID_ARGUMENT: the flag says
  // less than `least`.
  absl::StatusOr<uint64_t> MemoryLimit(uint64_t least = MemoryBudget::kLimitMin) const;
};

// Finds the cluster, by --cluster or TF_CONFIG, and this process's task, by --task or the
// configuration. INVALID_ARGUMENT names what is missing.
absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags);

// What --version prints: the program, its version and the protocol that it speaks.
std::string VersionText(const std::string& program);

// Parses the flags of a daemon, which `shared` has added. If it prints help, its version or
// problems, it returns the exit code to leave with. With --restarts, this process starts the daemon
// again where that may help: returns the code to leave with in the first process, and nullopt in
// the daemon. Called before there are threads.
std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv, const DaemonFlags& shared = {});

// Sets up logging and, if wanted, the trace, and checks that there are descriptors for that many
// peers. Called before the daemon starts threads; returns an exit code on failure.
std::optional<int> SetUpOrExit(const DaemonFlags& flags, const Task& task, size_t peers,
                               const char* program);

// Runs `main` and leaves with its exit code, or with kFailed instead of 0 if standard output did
// not take all that was printed. If memory runs out, that is printed before the process ends by
// SIGABRT.
[[noreturn]] void RunProgram(int argc, char** argv, int (*main)(int argc, char** argv));

// True if a daemon with these options serves HTTPS at an address of --http: it has a certificate,
// and other machines reach the address.
bool ServesHttps(const std::string& address, const SecurityOptions& security);
// The HTTP address of a daemon (--http): everybody on this machine may look in plain text, and
// others by HTTPS, which needs a certificate, or if --insecure says that the network is trusted.
// INVALID_ARGUMENT says so of an address.
absl::Status CheckHttp(const std::string& address, const SecurityOptions& security);
// As SetUpSecurity, but waits for a better certificate or key where one has expired or does not
// fit, and says so; supervisors on this host hear meanwhile that the daemon, which will listen at
// `address`, lives. UNAVAILABLE after ten minutes.
absl::Status AwaitSecurity(const DaemonFlags& flags, const std::string& task,
                           const std::string& address, GrpcOptions& grpc);
// The exit code if the certificates cannot be used: a restart may help where time does.
ExitCode SecurityExitCode(const absl::Status& status);

// Starts what --http shows, and logs where. On failure returns an error for ListenExitCode.
absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const DaemonFlags& flags, const Task& task,
                                                      Daemon& daemon, MonitorSource source);

// Ends the process after flushing its output, without running destructors of static objects, which
// gRPC's threads may still use.
[[noreturn]] void LeaveProcess(int exit_code);

// The signals that ask a daemon to leave: SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless it
// is ignored (nohup).
sigset_t LeaveSignals();
// Blocks these signals in this thread and those that it starts. A GPU's driver starts threads,
// which would otherwise take a signal from the thread that waits for it.
void BlockLeaveSignals();
std::string SignalName(int signal);  // "SIGTERM"

// Prints `status` as the program's last line and returns its exit code.
int Complain(const char* program, const absl::Status& status, ExitCode code);

// Returns the name of this machine, for messages.
std::string HostName();

// Warns if `own`, which `key` of the cluster says of `task`, is a loopback address while other
// tasks are on other hosts, which can never reach it.
void WarnOfOwnLoopback(const Logger& log, const std::string& task, const std::string& key,
                       const std::string& own, const Cluster& cluster);

// Warns if `expected`, which `key` of the cluster says of `task`, has another port than `address`,
// where the task listens. `expected` is "" if the cluster says nothing.
void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address);

// The exit code if an address cannot be listened at: it is in use, it belongs to another machine,
// or the process was told to leave meanwhile.
ExitCode ListenExitCode(const absl::Status& status);

class Daemon {
 public:
  // Blocks the signals that Run takes. Must be constructed before any other thread is started.
  // Requests and receive buffers take their memory from `memory`, whatever the options say.
  explicit Daemon(GrpcOptions options = {},
                  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>());

  Environment environment() { return {loop_, shared_network_, files_, executor_, random_}; }

  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  // Null where connections are plain text.
  const std::shared_ptr<Credentials>& credentials() const { return network_.credentials(); }
  const std::shared_ptr<RefusedPeers>& refused() const { return network_.refused(); }
  // The intake for requests that come through other listeners than this network's.
  const std::shared_ptr<Intake>& intake() const { return network_.intake(); }

  // Listens at an address. If its name does not resolve to this machine, it tries again for a
  // minute, because a pod starts before its name is known, or while name servers still have its
  // last address. CANCELLED: one of LeaveSignals() came meanwhile. `log` gets a line if it waits.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, Service& service,
                                                   const Logger& log);

  // Makes the job's directory while the loop runs, and tries again while that may help, which `log`
  // says once. It ends Run where only a person can mend what is wrong.
  void MakeDir(const std::string& dir, const Logger& log, bool said = false);
  // Tells supervisors on this host of the health of a daemon that listens at `address`.
  void AnswerLocally(const std::string& address, const std::string& task,
                     std::function<HealthState()> health);

  // Ends Run. The role is given this function.
  void Exit(int exit_code, const std::string& reason);
  // Makes a check that ends Run with kListenerDeaf if nobody accepts at `address` any more. The
  // check must be destroyed before this daemon.
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
