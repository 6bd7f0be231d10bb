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
#include "common/memory_budget.h"
#include "common/parallel.h"
#include "common/shared_memory.h"
#include "common/status_macros.h"
#include "common/thread_loop.h"
#include "net/grpc/daemon_process.h"
#include "server/parameter_server.h"

namespace paracord {
namespace {

// "ps-2": a set of numbered hosts, as a StatefulSet's pods are, has no other place for the index.
std::string TaskOfHost() {
  char host[HOST_NAME_MAX + 1] = "";
  (void)gethostname(host, HOST_NAME_MAX);
  const std::string name = host;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  return digits == name.size() ? "ps" : absl::StrCat("ps:", name.substr(digits));
}

struct PsFlags {
  DaemonFlags shared;
  bool shared_memory = true;
  GrpcOptions grpc;
  PsOptions options;
  int64_t in_flight_mb = static_cast<int64_t>(MemoryBudget::Caps().requests >> 20);
  int64_t pinned_mb = static_cast<int64_t>(MemoryBudget::Caps().replies >> 20);
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());

  void AddTo(Flags& flags);
  absl::StatusOr<std::shared_ptr<MemoryBudget>> Memory() const;
};

absl::StatusOr<std::shared_ptr<MemoryBudget>> PsFlags::Memory() const {
  ASSIGN_OR_RETURN(const uint64_t limit, shared.MemoryLimit());
  MemoryBudget::Caps caps;
  caps.requests = static_cast<uint64_t>(in_flight_mb) << 20;
  caps.replies = static_cast<uint64_t>(pinned_mb) << 20;
  caps.staged = caps.requests / 2;  // the others need room too
  return std::make_shared<MemoryBudget>(limit, caps);
}

void PsFlags::AddTo(Flags& flags) {
  shared.AddTo(flags);
  flags.Switch("shared-memory",
               "serve workers on this host through shared memory (on; =false: the network alone)",
               &shared_memory);
  flags.Integer(
      "in-flight-mb", "N",
      "MiB of requests that arrive or are answered, half as much of early gradients beside", 1,
      1 << 20, &in_flight_mb);
  flags.Integer("pinned-mb", "N",
                "MiB of replaced or converted values that slow readers hold; above it exchanges "
                "wait for them",
                1, 1 << 20, &pinned_mb);
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

// Returns what processes of this host may call over shared memory, which only workers use.
Access AccessOfWorkers(const GrpcOptions& grpc) {
  if (grpc.credentials == nullptr) return {};
  const auto keys = grpc.credentials->Current();
  return Access({.cluster = keys->own->cluster, .role = PeerRole::kWorker, .index = {}});
}

// Returns the source of what --http shows.
MonitorSource Shown(const ParameterServer& ps) {
  MonitorSource source;
  source.health = [&ps] { return ps.Health(); };
  source.measure = [&ps](MetricSet& metrics) { ps.AddMetrics(metrics); };
  return source;
}

constexpr int64_t kTrimMs = 1000;

// Gives memory back, again and again, that replies had and nobody has used since the last time.
void KeepTrimming(EventLoop& loop, Executor& lane) {
  loop.PostAfter(kTrimMs, [&loop, &lane] {
    lane.Run(TrimSharedMemory, [&loop, &lane] { KeepTrimming(loop, lane); });
  });
}

int Main(int argc, char** argv) {
  Flags flags("paracord-ps",
              "Holds partitions of a job's variables and applies gradients to them. As task ps,\n"
              "without an index, it has the one that its host's name ends with.");
  PsFlags own;
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
  if (const absl::Status safe = AwaitSecurity(shared, task, listen, own.grpc); !safe.ok()) {
    return Complain(argv[0], safe, SecurityExitCode(safe));
  }
  const absl::StatusOr<std::shared_ptr<MemoryBudget>> memory = own.Memory();
  if (!memory.ok()) return Complain(argv[0], memory.status(), ExitCode::kConfiguration);
  Daemon daemon(own.grpc, *memory);
  SetParallelThreads(static_cast<int>(own.threads));
  const size_t peers = cluster->workers.size() + 1;
  if (const auto code = SetUpOrExit(shared, *cluster->task, peers, argv[0])) return *code;
  PsOptions options = own.options;
  options.index = cluster->task->index;
  options.dir = AbsolutePath(shared.dir);
  options.host = HostName();
  options.pinned_bytes_max = static_cast<uint64_t>(own.pinned_mb) << 20;
  options.memory = *memory;
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
  if (own.shared_memory) {
    offer = SharedNetwork::Offer(ps.boot_id(), ps, daemon.intake(),
                                 SharedConnection::kReplyPatienceMs, AccessOfWorkers(own.grpc));
  }
  if (!offer.ok()) log.Warn("{}", std::string(offer.status().message()));
  const std::unique_ptr<ListenerCheck> check = daemon.CheckListener((*listener)->own_address());
  return daemon.Run([&](const std::string&) { ps.Drain(); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::RunProgram(argc, argv, paracord::Main); }
