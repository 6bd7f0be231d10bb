#include "daemon/daemon_process.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/descriptors.h"
#include "common/failpoint.h"
#include "common/files.h"
#include "common/human_bytes.h"
#include "common/kernel_file.h"
#include "common/last_events.h"
#include "common/log.h"
#include "common/log_format.h"
#include "common/memory_limit.h"
#include "common/one_line.h"
#include "common/shared_memory.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "common/trace.h"
#include "daemon/restarts.h"
#include "net/grpc/grpc_log.h"
#include "net/name_lookup.h"
#include "net/receive_buffers.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kOwnNameS = 60;  // time for the daemon's name to resolve to this machine

// Prefixes the parser's messages with their source, TF_CONFIG or a file, unknown to the parser.
absl::Status SaidOf(const std::string& from, const absl::Status& status) {
  const std::string lines =
      absl::StrReplaceAll(status.message(), {{"\n", absl::StrCat("\n", from, ": ")}});
  return absl::Status(status.code(), absl::StrCat(from, ": ", lines));
}

// Prints what is missing when memory runs out. The process is about to end, and the text must need
// no memory.
[[noreturn]] void SayWhatIsMissing() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    rusage used{};
    rlimit most{};
    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_AS, &most);
    const bool limited = most.rlim_cur != RLIM_INFINITY;
    std::fprintf(stderr, "out of memory, of which this process has had %ld MiB%s\n",
                 used.ru_maxrss >> 10,
                 limited ? ": its limit (ulimit -v) has to be higher"
                         : ": it needs more, or more ps (variables) and a smaller batch (worker)");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ended by %s\n", error.what());
  } catch (...) {
  }
  std::abort();
}

// Returns the resident memory of this process in bytes; 0 if the kernel does not tell.
uint64_t ResidentBytes() {
  std::istringstream file(ReadKernelFile("/proc/self/statm"));
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

GrpcOptions WithRequests(GrpcOptions options, std::shared_ptr<MemoryShare> requests) {
  options.requests = std::move(requests);
  options.refused = std::make_shared<RefusedPeers>();
  return options;
}

}  // namespace

void RunProgram(int argc, char** argv, int (*main)(int argc, char** argv)) {
  // If descriptor 0, 1 or 2 is closed, the next file or socket would reuse the number and receive
  // our output. Fills closed ones with /dev/null, opened for reading, to keep writes failing.
  int null = -1;
  do {
    null = open("/dev/null", O_RDONLY);
  } while (null >= 0 && null <= STDERR_FILENO);
  if (null >= 0) close(null);
  std::set_terminate(SayWhatIsMissing);
  LogGrpcAsOurs();
  std::error_code gone;
  if (std::filesystem::current_path(gone).empty()) {
    std::cerr << argv[0] << ": the current directory cannot be had (" << gone.message()
              << "): relative paths lead nowhere from there\n";
  }
  const int code = main(argc, argv);
  if (std::cout.flush()) LeaveProcess(code);
  std::cerr << argv[0] << ": not all output could be written to standard output\n";
  LeaveProcess(code == 0 ? static_cast<int>(ExitCode::kFailed) : code);
}

void DaemonFlags::AddTo(Flags& flags) {
  flags.String("cluster", "FILE", "the cluster, as TF_CONFIG has it (instead of TF_CONFIG)",
               &cluster_file);
  flags.String("task", "ROLE:INDEX", "which task of the cluster this is", &task);
  flags.String("dir", "DIR", "the job's directory, shared by all daemons", &dir);
  flags.String("listen", "ADDRESS", "listen here instead of at the task's own address", &listen);
  flags.String("http", "ADDRESS",
               "show metrics and health there by HTTP, or where other machines reach it by HTTPS: "
               "/metrics, /livez, /readyz",
               &http);
  flags.String("log-level", "LEVEL", "debug, info, warn, error or off", &log_level);
  flags.String("log-format", "FORMAT",
               "text, json (one object a line), or auto: text on a terminal and json elsewhere",
               &log_format);
  flags.String("memory-limit", "BYTES",
               "what this process may hold in memory, such as 2GiB (what its control group or the "
               "machine has)",
               &memory_limit);
  flags.String("trace", "FILE", "write spans of time there, as `paracord train --trace` asks",
               &trace);
  flags.String("http-clients", "ROLES",
               "over HTTPS show --http's pages only to certificates of these roles, such as "
               "operator,monitor (to anybody)",
               &security.http_clients);
  flags.Integer("restarts", "N",
                "start the daemon again where that may help (exit codes from 128 but 143, and "
                "signals), at most so often one after the other",
                0, 1000, &restarts);
  AddSecurityFlags(flags, security);
}

absl::StatusOr<uint64_t> DaemonFlags::MemoryLimit(uint64_t least) const {
  if (memory_limit.empty()) {
    const uint64_t bytes = FindMemory().bytes;
    return std::max(bytes - bytes / 10, least);
  }
  const absl::StatusOr<uint64_t> bytes = ParseBytes(memory_limit);
  const std::string why = !bytes.ok()      ? std::string(bytes.status().message())
                          : *bytes < least ? absl::StrCat("must be at least ", HumanBytes(least))
                                           : "";
  if (!why.empty()) return absl::InvalidArgumentError("--memory-limit: " + why);
  return bytes;
}

absl::StatusOr<Cluster> FindCluster(const DaemonFlags& flags) {
  if (const std::string wrong = CheckLogLevel(flags.log_level); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  if (const std::string wrong = CheckLogFormat(flags.log_format); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  if (!flags.listen.empty()) RETURN_IF_ERROR(CheckAddress(flags.listen, "--listen"));
  RETURN_IF_ERROR(CheckHttp(flags.http, flags.security));
  std::string json;
  std::string from = "TF_CONFIG";
  if (!flags.cluster_file.empty()) {
    PosixFiles files;
    ASSIGN_OR_RETURN(json, files.ReadWhole(flags.cluster_file));
    from = flags.cluster_file;
  } else if (const char* config = std::getenv("TF_CONFIG"); config != nullptr) {
    json = config;
  }
  absl::StatusOr<std::optional<Cluster>> parsed = ParseTfConfig(json);
  if (!parsed.ok()) return SaidOf(from, parsed.status());
  std::optional<Cluster> cluster = *std::move(parsed);
  if (!cluster.has_value()) cluster.emplace();
  if (!flags.task.empty()) {
    ASSIGN_OR_RETURN(cluster->task, ParseTask(flags.task));
  }
  if (!cluster->task.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, " does not say which task this is (key task): give --task ROLE:INDEX"));
  }
  return *std::move(cluster);
}

std::string VersionText(const std::string& program) {
  return absl::StrCat(program, " ", PARACORD_VERSION, ", protocol ", kProtocol);
}

std::optional<int> ParseOrExit(Flags& flags, int argc, char** argv, const DaemonFlags& shared) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  flags.Version(VersionText(std::filesystem::path(argv[0]).filename().string()));
  const std::optional<int> code = flags.ParseOrExit(args, argv[0], std::cout, std::cerr);
  if (code.has_value() || shared.restarts == 0) return code;
  SetUpLogging(shared.log_level, shared.log_format);
  return RestartWhereItHelps({.restarts_max = shared.restarts, .task = shared.task});
}

std::optional<int> SetUpOrExit(const DaemonFlags& flags, const Task& task, size_t peers,
                               const char* program) {
  SetUpLogging(flags.log_level, flags.log_format);
  DumpLastEventsOnFatalSignals();
  if (flags.security.insecure) {
    Logger(task.ToString())
        .Warn(
            "--insecure: whoever reaches this process over the network may read, change and end "
            "the job; --tls-cert, --tls-key and --tls-ca shut strangers out");
  }
  if (const std::string armed = ArmedFailpoints(); !armed.empty()) {
    Logger(task.ToString())
        .Warn("{} is set, which is for tests: this process will fail on purpose at {}",
              kFailpointsVariable, armed);
  }
  for (const std::string& open : OpenSecrets(flags.security)) {
    Logger(task.ToString()).Warn("{}", open);
  }
  const absl::Status enough = WantDescriptors(kOwnDescriptors + peers);
  if (!enough.ok()) return Complain(program, enough, ExitCode::kConfiguration);
  if (flags.trace.empty()) return std::nullopt;
  PosixFiles files;
  const absl::Status started = StartTrace(files, AbsolutePath(flags.trace), task.ToString());
  if (started.ok()) return std::nullopt;
  return Complain(program, started, ExitCode::kConfiguration);
}

bool ServesHttps(const std::string& address, const SecurityOptions& security) {
  return !address.empty() && !StaysHere(address) && !security.cert.empty();
}

absl::Status CheckHttp(const std::string& address, const SecurityOptions& security) {
  if (address.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAddress(address, "--http"));
  if (StaysHere(address) || security.insecure) return absl::OkStatus();
  if (ServesHttps(address, security)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--http ", address,
      ": other machines could read it, and anybody between them and this one: give --tls-cert, "
      "--tls-key and --tls-ca (launch: --certs), with which it is HTTPS, or a loopback address "
      "such "
      "as 127.0.0.1",
      address.substr(address.rfind(':')), ", or --insecure where the network is trusted"));
}

absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const DaemonFlags& flags, const Task& task,
                                                      Daemon& daemon, MonitorSource source) {
  source.role = RoleName(task.role);
  source.task = task.role == Role::kCoordinator ? "coordinator" : task.ToString();
  const Logger log(source.task);
  source.version = PARACORD_VERSION;
  const std::shared_ptr<Credentials> credentials = daemon.credentials();
  const bool https = credentials != nullptr && ServesHttps(flags.http, flags.security);
  const bool exposed = !flags.http.empty() && !StaysHere(flags.http) && !https;
  source.insecure = exposed || flags.security.insecure;
  if (exposed) {
    log.Warn("INSECURE: --http {} is served to other machines without TLS", flags.http);
  }
  if (https) source.https = credentials;
  if (credentials != nullptr && credentials->Current()->own.has_value()) {
    source.certificate_expires_s = [credentials] { return credentials->Current()->expires_unix_s; };
  }
  source.measure = [inner = std::move(source.measure), refused = daemon.refused()](MetricSet& to) {
    if (inner != nullptr) inner(to);
    for (const auto& [who, count] : refused->counts()) {
      const auto& [cause, certificate] = who;
      to.Counter("paracord_refused_connections_total",
                 "Clients refused or cut off, by the cause and the certificate, if it is believed.",
                 static_cast<double>(count),
                 {{"cause", RefusedPeers::NameOf(cause)}, {"certificate", certificate}});
    }
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Monitor> monitor,
                   Monitor::Start(flags.http, daemon.environment().loop, std::move(source)));
  if (monitor != nullptr)
    log.Info("{} at {}", https ? "HTTPS" : "HTTP", monitor->address(),
             "address"_a = monitor->address());
  return monitor;
}

void LeaveProcess(int exit_code) {
  FlushTrace();
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(exit_code);
}

sigset_t LeaveSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup;
  const bool ignored = sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  if (!ignored) sigaddset(&signals, SIGHUP);
  return signals;
}

void BlockLeaveSignals() {
  const sigset_t signals = LeaveSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

std::string SignalName(int signal) { return absl::StrCat("SIG", sigabbrev_np(signal)); }

int Complain(const char* program, const absl::Status& status, ExitCode code) {
  std::cerr << program << ": " << ForTerminal(std::string(status.message())) << "\n";
  return static_cast<int>(code);
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

void WarnOfOwnLoopback(const Logger& log, const std::string& task, const std::string& key,
                       const std::string& own, const Cluster& cluster) {
  const std::string elsewhere = TaskElsewhere(cluster);
  if (own.empty() || !IsLoopback(own) || elsewhere.empty()) return;
  log.Warn(
      "{} is {} (key {}), a loopback address that nobody on another host can reach, and {}: give "
      "it the address that the others have for it, or --listen 0.0.0.0{}",
      task, own, key, elsewhere, own.substr(own.rfind(':')));
}

void WarnOfOtherAddress(const Logger& log, const std::string& task, const std::string& key,
                        const std::string& expected, const std::string& address) {
  const auto port = [](const std::string& of) {  // or the path
    return of.substr(of.rfind(':') + 1);
  };
  if (expected.empty() || port(expected) == port(address)) return;
  log.Warn(
      "the cluster says that {} is at {} (key {}), and there the others look for it: start them "
      "with a cluster that says {}, or listen there",
      task, expected, key, address);
}

ExitCode ListenExitCode(const absl::Status& status) {
  if (absl::IsCancelled(status)) return ExitCode::kDrained;
  return absl::IsAlreadyExists(status) ? ExitCode::kInUse : ExitCode::kConfiguration;
}

// Called first of all: threads inherit the signal mask, and only the thread in Run may take these
// signals.
bool Daemon::Prepare(const MemoryBudget& memory) {
  BlockLeaveSignals();
  umask(077);  // the daemon's files are readable by its own user only
  signal(SIGPIPE, SIG_IGN);
  // Writing a too large file returns an error instead, also for memory files.
  signal(SIGXFSZ, SIG_IGN);
  // Keeps freed memory: touching a fresh page costs more than the socket's copy into it.
  const int kept = static_cast<int>(std::min<uint64_t>(memory.limit() / 16, 1 << 30));
  mallopt(M_TRIM_THRESHOLD, kept);
  mallopt(M_TOP_PAD, std::min(kept, 16 << 20));
  mallopt(M_MMAP_THRESHOLD, kept);
  // Each arena keeps what was freed in it, and there are up to eight for each processor: where
  // there is little memory, threads share two.
  constexpr uint64_t kLittle = uint64_t{1} << 30;
  if (memory.limit() <= kLittle) mallopt(M_ARENA_MAX, 2);
  EnableSharedMemory();      // without it everything goes through sockets
  (void)WantDescriptors(0);  // raises the soft limit to the hard limit
  return true;
}

Daemon::Daemon(GrpcOptions options, std::shared_ptr<MemoryBudget> memory)
    : memory_(std::move(memory)),
      prepared_(Prepare(*memory_)),
      network_(WithRequests(std::move(options), memory_->requests())),
      executor_(loop_) {
  KeepReceiveBuffersIn(memory_->buffers());
  if (memory_->limited()) GiveBack(0, 0);
}

// Returns freed memory to the kernel. The allocator keeps freed memory, and gRPC's frees leave many
// small pieces. Trims once the process has more beside its variables than half of the remaining
// limit: at once after growth by a sixteenth of the limit, otherwise now and then.
void Daemon::GiveBack(uint64_t before_bytes, int looks) {
  constexpr int64_t kLookMs = 100;
  constexpr int kLooks = 20;
  const uint64_t bytes = ResidentBytes();
  const bool grown = bytes > before_bytes + memory_->limit() / 16;
  const bool now = memory_->MuchBesideVariables(bytes) && (grown || looks >= kLooks);
  if (now) malloc_trim(0);
  loop_.PostAfter(kLookMs, [this, had_bytes = now ? ResidentBytes() : before_bytes,
                            next = now ? 0 : looks + 1] { GiveBack(had_bytes, next); });
}

absl::StatusOr<std::unique_ptr<Listener>> Daemon::Listen(const std::string& address,
                                                         Service& service, const Logger& log) {
  const int64_t begun_ms = SteadyMs();
  NameLookup name(address);  // resolves in a thread: a silent name server blocks nobody
  for (bool said = false;; said = true) {
    constexpr int64_t kPatienceMs = 1000;
    const absl::Status found = HasName(address) ? name.Find(kPatienceMs).status() : absl::Status();
    absl::Status missing = absl::NotFoundError(
        absl::StrCat("cannot listen at ", address, ": ", std::string(found.message())));
    if (found.ok()) {
      absl::StatusOr<std::unique_ptr<Listener>> listener = network_.Listen(address, service);
      const bool plain = credentials() == nullptr && !address.starts_with("unix:");
      if (listener.ok() && plain && StaysHere(address)) {
        log.Warn(
            "{} is plain text: any user of this host may read, change and end the job; a unix "
            "socket, or --tls-cert, --tls-key and --tls-ca, keep others out",
            address);
      }
      if (!absl::IsNotFound(listener.status())) return listener;
      missing = listener.status();
    }
    if (SteadyMs() - begun_ms >= kOwnNameS * 1000) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(missing.message()), "; --listen 0.0.0.0",
                       address.substr(address.rfind(':')), " listens at whatever address it has"));
    }
    if (!said) {
      log.Warn("{}: waits for its name, for {} s", std::string(missing.message()), kOwnNameS);
    }
    const sigset_t signals = LeaveSignals();
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    const int signal = sigtimedwait(&signals, nullptr, &second);
    if (signal > 0) return absl::CancelledError(SignalName(signal) + " before it listened");
  }
}

void Daemon::MakeDir(const std::string& dir, const Logger& log, bool said) {
  const auto made = std::make_shared<absl::Status>();
  executor_.Run([this, made, dir] { *made = files_.MakeDirectories(dir); },
                [this, made, dir, log, said] {
                  if (made->ok()) return;
                  const std::string why = absl::StrCat("--dir: ", std::string(made->message()));
                  const bool ours = absl::IsNotFound(*made) || absl::IsFailedPrecondition(*made) ||
                                    absl::IsAlreadyExists(*made) || absl::IsInvalidArgument(*made);
                  if (ours) return Exit(static_cast<int>(ExitCode::kConfiguration), why);
                  constexpr int64_t kAgainMs = 1000;
                  if (!said) log.Warn("waits for the storage: {}", why);
                  loop_.PostAfter(kAgainMs, [this, dir, log] { MakeDir(dir, log, true); });
                });
}

void Daemon::AnswerLocally(const std::string& address, const std::string& task,
                           std::function<HealthState()> health) {
  MonitorSource source;
  source.task = task;
  source.health = std::move(health);
  local_health_ = ServeLocalHealth(address, loop_, std::move(source));
}

void Daemon::Exit(int exit_code, const std::string& reason) {
  Logger("daemon").Info("exit code {}: {}", exit_code, reason, "reason"_a = reason);
  exit_code_ = exit_code;
  loop_.Stop();
}

std::unique_ptr<ListenerCheck> Daemon::CheckListener(const std::string& address) {
  return std::make_unique<ListenerCheck>(network_, loop_, address, [this, address] {
    Exit(static_cast<int>(ExitCode::kListenerDeaf), "nobody answers at our own address " + address);
  });
}

int Daemon::Run(std::function<void(const std::string& signal)> drain) {
  if (credentials() != nullptr) {
    const std::string problem = credentials()->Current()->own_problem;
    if (!problem.empty()) Logger("credentials").Warn("{}", problem);
  }
  std::thread([this, drain = std::move(drain)] {
    const sigset_t signals = LeaveSignals();
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) return;
    loop_.Post([drain, name = SignalName(signal)] { drain(name); });
    // A terminal, a supervisor and the kernel (PR_SET_PDEATHSIG, once for each thread of the
    // parent) may all send a signal. Signals that come together count as one.
    const auto first = std::chrono::steady_clock::now();
    do {
      if (sigwait(&signals, &signal) != 0) return;
    } while (signal == SIGHUP ||
             std::chrono::steady_clock::now() - first < std::chrono::seconds(1));
    _exit(static_cast<int>(ExitCode::kDrained));
  }).detach();
  loop_.Run();
  return exit_code_;
}

}  // namespace paracord
