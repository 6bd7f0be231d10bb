// paracord-ps: holds partitions of the variables.
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "common/thread_loop.h"
#include "daemon/daemon_process.h"
#include "server/parameter_server.h"
#include "server/ps_process.h"

namespace paracord {
namespace {

// The index of a host like "ps-2" (a pod of a StatefulSet), for clusters that name it nowhere else.
std::string TaskOfHost() {
  char host[HOST_NAME_MAX + 1] = "";
  (void)gethostname(host, HOST_NAME_MAX);
  const std::string name = host;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  return digits == name.size() ? "ps" : absl::StrCat("ps:", name.substr(digits));
}

struct PsMainFlags {
  DaemonFlags shared;
  PsFlags ps;
  PsOptions options;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());

  void AddTo(Flags& flags);
};

void PsMainFlags::AddTo(Flags& flags) {
  shared.AddTo(flags);
  ps.AddTo(flags);
  flags.Switch("stay",
               "when the job has ended, give the memory back and wait for SIGTERM or another "
               "coordinator, for a supervisor that starts again whatever exits",
               &options.stay);
  flags.Integer("threads", "N", "threads that apply one push", 1, 1024, &threads);
}

std::string ExpectedAddress(const Cluster& cluster) {
  const uint32_t index = cluster.task->index;
  return index < cluster.ps.size() ? cluster.ps[index] : "";
}

// Checks that the task is a ps that has a directory and an address.
absl::Status CheckTask(const DaemonFlags& shared, const Cluster& cluster) {
  const std::string task = cluster.task->ToString();
  if (cluster.task->role != Role::kPs) {
    return absl::InvalidArgumentError("needs a task ps:INDEX, not " + task);
  }
  if (shared.dir.empty()) return absl::InvalidArgumentError(task + " needs --dir DIR");
  if (!shared.listen.empty() || !ExpectedAddress(cluster).empty()) return absl::OkStatus();
  const std::string key = absl::StrCat("cluster.ps, which has ", cluster.ps.size());
  return NoAddress(cluster, task, key, "give --listen ADDRESS");
}

// Returns the source of what --http shows.
MonitorSource Shown(const ParameterServer& ps) {
  MonitorSource source;
  source.health = [&ps] { return ps.Health(); };
  source.measure = [&ps](MetricSet& metrics) { ps.AddMetrics(metrics); };
  return source;
}

int Main(int argc, char** argv) {
  Flags flags("paracord-ps",
              "Holds partitions of a job's variables and applies gradients to them. As task ps,\n"
              "without an index, it has the one that its host's name ends with.");
  PsMainFlags own;
  own.AddTo(flags);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv, own.shared)) return *code;
  DaemonFlags& shared = own.shared;
  if (shared.task == "ps") shared.task = TaskOfHost();
  const absl::StatusOr<Cluster> cluster = FindCluster(shared);
  if (!cluster.ok()) return Complain(argv[0], cluster.status(), ExitCode::kConfiguration);
  if (const absl::Status checked = CheckTask(shared, *cluster); !checked.ok()) {
    return Complain(argv[0], checked, ExitCode::kConfiguration);
  }
  const std::string task = cluster->task->ToString();
  const std::string expected = ExpectedAddress(*cluster);
  const std::string& listen = shared.listen.empty() ? expected : shared.listen;
  GrpcOptions grpc;
  if (const absl::Status safe = AwaitSecurity(shared, task, listen, grpc); !safe.ok()) {
    return Complain(argv[0], safe, SecurityExitCode(safe));
  }
  const absl::StatusOr<uint64_t> memory_limit = shared.MemoryLimit();
  if (!memory_limit.ok()) return Complain(argv[0], memory_limit.status(), ExitCode::kConfiguration);
  Daemon daemon(grpc, own.ps.Memory(*memory_limit));
  SetParallelThreads(static_cast<int>(own.threads));
  const size_t peers = cluster->workers.size() + 1;
  if (const auto code = SetUpOrExit(shared, *cluster->task, peers, argv[0])) return *code;
  PsOptions options = own.options;
  options.index = cluster->task->index;
  options.dir = AbsolutePath(shared.dir);
  options.host = HostName();
  own.ps.Set(options);
  options.memory = daemon.memory();
  options.refused_peer = [refused = daemon.refused()] { return refused->last(); };
  ThreadExecutor exchanges(daemon.environment().loop);
  options.exchanges = &exchanges;
  KeepTrimming(daemon.environment().loop, exchanges);
  ParameterServer ps(options, daemon.environment(),
                     [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  const Logger log(task);
  const std::string key = absl::StrCat("cluster.ps[", options.index, "]");
  if (shared.listen.empty()) WarnOfOwnLoopback(log, task, key, expected, *cluster);
  HealthService service(
      task, daemon.environment().loop, [&ps] { return ps.Health(); }, &ps);
  const auto listener = daemon.Listen(listen, service, log);
  if (!listener.ok()) {
    return Complain(argv[0], listener.status(), ListenExitCode(listener.status()));
  }
  log.Info("listens at {address}", "address"_a = (*listener)->address());
  daemon.AnswerLocally((*listener)->address(), task, [&ps] { return ps.Health(); });
  daemon.MakeDir(options.dir, log);
  WarnOfOtherAddress(log, task, "cluster.ps", expected, (*listener)->address());
  const auto monitor = StartMonitor(shared, *cluster->task, daemon, Shown(ps));
  if (!monitor.ok()) return Complain(argv[0], monitor.status(), ListenExitCode(monitor.status()));
  absl::StatusOr<std::unique_ptr<Listener>> offer = nullptr;
  if (own.ps.shared_memory) {
    offer = OfferSharedMemory(ps, daemon.request_budget(), daemon.credentials().get());
  }
  if (!offer.ok()) log.Warn("{}", std::string(offer.status().message()));
  const std::unique_ptr<ListenerCheck> check = daemon.CheckListener((*listener)->own_address());
  return daemon.Run([&](const std::string&) { ps.Drain(); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::RunProgram(argc, argv, paracord::Main); }
