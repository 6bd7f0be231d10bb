// paracord-coordinator: owns the job.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/log.h"
#include "common/memory_budget.h"
#include "common/status_macros.h"
#include "config/nodes.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_process.h"
#include "coordinator/status_page.h"
#include "daemon/daemon_process.h"

namespace paracord {
namespace {

// Requests to a coordinator are small: the facts of a job, and reports.
constexpr MemoryBudget::Caps kCaps = {.requests = uint64_t{256} << 20,
                                      .one_request = uint64_t{64} << 20};

struct CoordinatorMainFlags {
  DaemonFlags shared;
  CoordinatorFlags coordinator;
  std::string ps;
  GrpcOptions grpc;
  std::shared_ptr<MemoryBudget> memory;

  void AddTo(Flags& flags);
};

void CoordinatorMainFlags::AddTo(Flags& flags) {
  shared.AddTo(flags);
  coordinator.AddTo(flags);
  flags.String("ps", "ADDRESS,...", "the parameter servers, where the cluster leaves them out",
               &ps);
}

// Returns the addresses of the ps: of --ps, or of the cluster, or of the workers where they are
// nodes.
absl::StatusOr<std::vector<std::string>> PsAddresses(const Cluster& cluster,
                                                     const std::string& flag) {
  if (!flag.empty()) {
    std::vector<std::string> given = absl::StrSplit(flag, ',');
    RETURN_IF_ERROR(CheckAddresses(given, "--ps"));
    return given;
  }
  ASSIGN_OR_RETURN(std::vector<std::string> addresses, PsAddressesOf(cluster));
  if (addresses.empty()) {
    return absl::InvalidArgumentError(
        "the cluster has no ps (key cluster.ps): give --ps ADDRESS,ADDRESS,...");
  }
  const absl::Status status =
      CheckAddresses(addresses, HasNodes(cluster) ? "cluster.worker" : "cluster.ps");
  if (status.ok()) return addresses;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(status.message()), " (--ps ADDRESS,... gives them all)"));
}

// Warns of loopback addresses of ps, which this coordinator passes on to the workers.
void WarnOfLoopbackPs(const Logger& log, const Cluster& cluster,
                      const std::vector<std::string>& ps) {
  const std::string elsewhere = TaskElsewhere(cluster);
  if (elsewhere.empty()) return;
  const char* const role = HasNodes(cluster) ? "worker" : "ps";
  for (size_t i = 0; i < ps.size(); ++i) {
    if (!IsLoopback(ps[i])) continue;
    log.Warn(
        "{}:{} is at {} (key cluster.{}), a loopback address, and {}: workers on other hosts are "
        "told that address too, and will look for it on their own host",
        role, i, ps[i], role, elsewhere);
  }
}

// Checks that this task is a coordinator with a job, a directory and an address, and loads the
// credentials and the memory limit.
absl::Status CheckTask(CoordinatorMainFlags& own, const Cluster& cluster) {
  if (cluster.task->role != Role::kCoordinator) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs the task coordinator (or chief), not ", cluster.task->ToString()));
  }
  if (own.shared.dir.empty() || own.coordinator.job.empty()) {
    return absl::InvalidArgumentError("needs --job FILE and --dir DIR");
  }
  if (own.shared.listen.empty() && cluster.coordinator.empty()) {
    return NoAddress(cluster, "the coordinator", "cluster.chief", "give --listen ADDRESS");
  }
  ASSIGN_OR_RETURN(const uint64_t memory_limit, own.shared.MemoryLimit());
  own.memory = std::make_shared<MemoryBudget>(memory_limit, kCaps);
  if (own.ps.empty()) own.shared.security.nodes = NodeRightsIn(cluster);
  const std::string& listens_at =
      own.shared.listen.empty() ? cluster.coordinator : own.shared.listen;
  return AwaitSecurity(own.shared, cluster.task->ToString(), listens_at, own.grpc);
}

// Returns the options by the flags and the cluster. An error names the key or the flag.
absl::StatusOr<CoordinatorOptions> ReadOptions(const CoordinatorMainFlags& own,
                                               const Cluster& cluster, Daemon& daemon) {
  ASSIGN_OR_RETURN(std::vector<std::string> ps, PsAddresses(cluster, own.ps));
  for (const std::string& address : ps) {
    RETURN_IF_ERROR(CheckPlainText(own.shared.security, address, "the ps at"));
  }
  const CoordinatorPlace place{.dir = AbsolutePath(own.shared.dir),
                               .host = HostName(),
                               .credentials = daemon.credentials(),
                               .insecure = own.shared.security.insecure};
  return ReadCoordinatorOptions(daemon.environment().files, own.coordinator, cluster, std::move(ps),
                                place);
}

std::string ListenAddress(const Logger& log, const DaemonFlags& shared, const Cluster& cluster) {
  if (!shared.listen.empty()) return shared.listen;
  WarnOfOwnLoopback(log, "the coordinator", "cluster.chief", cluster.coordinator, cluster);
  return cluster.coordinator;
}

// Shows connections that a listener refused as events of the job.
void HearRefusals(Coordinator& coordinator, Daemon& daemon) {
  daemon.refused()->Tell(
      [&coordinator, &loop = daemon.environment().loop](const std::string& said) {
        loop.Post([&coordinator, said] { coordinator.NoteRefused(said); });
      });
}

// Returns what the --http server shows.
MonitorSource Shown(Coordinator& coordinator) {
  MonitorSource source;
  source.health = [&coordinator] { return coordinator.Health(); };
  source.measure = [&coordinator](MetricSet& metrics) { coordinator.AddMetrics(metrics); };
  source.status = [&coordinator] { return coordinator.PageJson(); };
  source.page = kStatusPage;
  return source;
}

int Main(int argc, char** argv) {
  Flags flags("paracord-coordinator", "Owns a job: variables, leases, checkpoints, evaluation.");
  CoordinatorMainFlags own;
  own.AddTo(flags);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv, own.shared)) return *code;
  const auto configuration = [&](const absl::Status& status) {
    return Complain(argv[0], status, ExitCode::kConfiguration);
  };
  const absl::StatusOr<Cluster> cluster = FindCluster(own.shared);
  if (!cluster.ok()) return configuration(cluster.status());
  if (const absl::Status checked = CheckTask(own, *cluster); !checked.ok()) {
    return Complain(argv[0], checked, SecurityExitCode(checked));
  }
  Daemon daemon(own.grpc, own.memory);
  const size_t peers = cluster->ps.size() + cluster->workers.size();
  if (const auto code = SetUpOrExit(own.shared, *cluster->task, peers, argv[0])) return *code;
  absl::StatusOr<CoordinatorOptions> options = ReadOptions(own, *cluster, daemon);
  if (!options.ok()) return configuration(options.status());
  const Logger log("coordinator");
  WarnOfLoopbackPs(log, *cluster, options->ps_addresses);
  const auto exit = [&](int code, const std::string& reason) { daemon.Exit(code, reason); };
  Coordinator coordinator(*std::move(options), daemon.environment(), exit);
  HearRefusals(coordinator, daemon);
  HealthService service(
      "coordinator", daemon.environment().loop, [&] { return coordinator.Health(); }, &coordinator);
  const auto listener = daemon.Listen(ListenAddress(log, own.shared, *cluster), service, log);
  if (!listener.ok()) {
    return Complain(argv[0], listener.status(), ListenExitCode(listener.status()));
  }
  daemon.AnswerLocally((*listener)->address(), "coordinator", [&] { return coordinator.Health(); });
  const auto monitor = StartMonitor(own.shared, *cluster->task, daemon, Shown(coordinator));
  if (!monitor.ok()) return Complain(argv[0], monitor.status(), ListenExitCode(monitor.status()));
  CoordinatorStart start(coordinator, daemon.environment(), (*listener)->address(), exit);
  daemon.environment().loop.Post([&] { start.Begin(); });
  log.Info("listens at {address}", "address"_a = (*listener)->address());
  WarnOfOtherAddress(log, "the coordinator", "cluster.chief", cluster->coordinator,
                     (*listener)->address());
  const std::unique_ptr<ListenerCheck> check = daemon.CheckListener((*listener)->own_address());
  return daemon.Run([&](const std::string& signal) { coordinator.Drain(signal); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::RunProgram(argc, argv, paracord::Main); }
