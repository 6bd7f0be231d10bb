// What every daemon's main does: flags, its place in the cluster, logging, signals, the real
// environment, and the end. Used in main's thread.
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
#include "common/thread_loop.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "net/grpc/network.h"
#include "net/self_probe.h"
#include "net/shared_network.h"

namespace paracord {

// Flags that all daemons share.
struct DaemonFlags {
  std::string cluster_file;
  std::string task;
  std::string dir;
  std::string listen;
  std::string log_level = "info";
  std::string trace;

  void AddTo(Flags& flags);
};

// The cluster from --cluster or TF_CONFIG, and the task that this process is: --task, or the one of
// the configuration. INVALID_ARGUMENT names what is missing.
absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags);

// Parses the flags of a daemon; prints help or problems and gives the exit code to leave with.
std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv);

// Logging, whether there are descriptors for that many peers, and the trace if one is wanted;
// before the daemon's threads.
std::optional<int> SetUpOrExit(const DaemonFlags& flags, const Task& task, size_t peers,
                               const char* program);

// Runs `main` and leaves with its exit code, or kFailed in place of 0 if standard output has not
// taken all that was printed. Memory that cannot be had is said before the process ends by SIGABRT.
[[noreturn]] void RunProgram(int argc, char** argv, int (*main)(int argc, char** argv));

// Ends the process with what has been written so far, and without the destructors of static
// objects: gRPC's threads may still use them.
[[noreturn]] void LeaveProcess(int exit_code);

// SIGTERM, SIGINT and, unless it is ignored (nohup), SIGHUP: a terminal that is closed.
sigset_t LeaveSignals();
// In this thread and those that it starts: a GPU's driver starts some, which would take a signal
// from the one that waits for it.
void BlockLeaveSignals();
std::string SignalName(int signal);  // "SIGTERM"

// Prints `status` as this program's last word and gives its exit code.
int Complain(const char* program, const absl::Status& status, ExitCode code);

// Warns if `expected`, which `key` of the cluster says of `task`, has another port than `address`,
// where it listens. "": the cluster says nothing.
void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address);

// The exit code for an address that cannot be listened at: in use, or not one of this machine; or
// told to leave before it could be.
ExitCode ListenExitCode(const absl::Status& status);

// Makes the job's directory, absolute. An error that only a person can mend has the exit code for
// configuration, others one that says that a restart may help.
std::optional<int> MakeDirOrExit(Files& files, const char* program, std::string& dir);

class Daemon {
 public:
  // Blocks the signals that Run takes; before any other thread is started.
  explicit Daemon(const GrpcOptions& options = {});

  Environment environment() { return {loop_, shared_network_, files_, executor_, random_}; }

  // Where requests count that do not come by that network's listeners.
  const std::shared_ptr<Intake>& intake() const { return network_.intake(); }

  // Where the name of `address` does not lead to this machine it is asked for again, for a minute:
  // a pod starts before its name is known, or while name servers still have its last address.
  // CANCELLED: one of LeaveSignals() came meanwhile. `log` gets a line if it waits.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, Service& service,
                                                   const Logger& log);

  // To be given to the role: ends Run.
  void Exit(int exit_code, const std::string& reason);
  // Ends Run with the code for a deaf listener when nobody answers at `address` any more. The probe
  // must end before this daemon.
  std::unique_ptr<SelfProbe> Probe(const std::string& address);
  // Runs the loop until Exit. LeaveSignals() call `drain` on the loop, with their name; a second
  // one ends the process at once, but for SIGHUP, which shell and kernel both send.
  int Run(std::function<void(const std::string& signal)> drain);

 private:
  static bool Prepare();

  const bool prepared_;  // before any member that starts threads
  ThreadLoop loop_;
  GrpcNetwork network_;
  SharedNetwork shared_network_{network_};
  PosixFiles files_;
  ThreadExecutor executor_;
  SystemRandom random_;
  int exit_code_ = 0;
};

}  // namespace paracord
