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
#include "config/job_settings.h"
#include "coordinator/coordinator.h"
#include "coordinator/rival.h"
#include "coordinator/status_page.h"
#include "net/grpc/daemon_process.h"

namespace paracord {
namespace {

// Nothing that a coordinator is told is large: the facts of a job, and reports.
constexpr MemoryBudget::Caps kCaps = {.requests = uint64_t{256} << 20,
                                      .one_request = uint64_t{64} << 20};

struct CoordinatorFlags {
  DaemonFlags shared;
  std::string job;
  std::vector<std::string> set, accept_changes;
  std::string ps;
  bool keep_job = false;
  GrpcOptions grpc;
  std::shared_ptr<MemoryBudget> memory;

  void AddTo(Flags& flags);
};

void CoordinatorFlags::AddTo(Flags& flags) {
  shared.AddTo(flags);
  flags.String("job", "FILE", "the job", &job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
  flags.Strings("accept-change", "FILE", kAcceptChangeHelp, &accept_changes);
  flags.Switch("keep-job",
               "go on with the job in --dir where the one given has keys that cannot change, and "
               "name them, instead of leaving with 2",
               &keep_job);
  flags.String("ps", "ADDRESS,...", "the parameter servers, where the cluster leaves them out",
               &ps);
}

absl::StatusOr<std::vector<std::string>> PsAddresses(const Cluster& cluster,
                                                     const std::string& flag) {
  std::vector<std::string> addresses = cluster.ps;
  if (!flag.empty()) addresses = absl::StrSplit(flag, ',');
  if (addresses.empty()) {
    return absl::InvalidArgumentError(
        "the cluster has no ps (key cluster.ps): give --ps ADDRESS,ADDRESS,...");
  }
  const absl::Status status = CheckAddresses(addresses, flag.empty() ? "cluster.ps" : "--ps");
  if (status.ok()) return addresses;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(status.message()), " (--ps ADDRESS,... gives them all)"));
}

// Warns of loopback addresses of ps, which this coordinator passes on to the workers.
void WarnOfLoopbackPs(const Logger& log, const Cluster& cluster,
                      const std::vector<std::string>& ps) {
  const std::string elsewhere = TaskElsewhere(cluster);
  if (elsewhere.empty()) return;
  for (size_t i = 0; i < ps.size(); ++i) {
    if (!IsLoopback(ps[i])) continue;
    log.Warn(
        "ps:{} is at {} (key cluster.ps), a loopback address, and {}: workers on other hosts are "
        "told that address too, and will look for it on their own host",
        i, ps[i], elsewhere);
  }
}

// Checks that the task is a coordinator that has a job, a directory and an address, and loads its
// credentials and its limit of memory.
absl::Status CheckTask(CoordinatorFlags& own, const Cluster& cluster) {
  if (cluster.task->role != Role::kCoordinator) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs the task coordinator (or chief), not ", cluster.task->ToString()));
  }
  if (own.shared.dir.empty() || own.job.empty()) {
    return absl::InvalidArgumentError("needs --job FILE and --dir DIR");
  }
  if (own.shared.listen.empty() && cluster.coordinator.empty()) {
    return NoAddress(cluster, "the coordinator", "cluster.chief", "give --listen ADDRESS");
  }
  ASSIGN_OR_RETURN(const uint64_t memory_limit, own.shared.MemoryLimit());
  own.memory = std::make_shared<MemoryBudget>(memory_limit, kCaps);
  const std::string& listens_at =
      own.shared.listen.empty() ? cluster.coordinator : own.shared.listen;
  return AwaitSecurity(own.shared, cluster.task->ToString(), listens_at, own.grpc);
}

// Reads the job, and takes the other tasks from the cluster. An error names the job's key or the
// cluster's.
absl::StatusOr<CoordinatorOptions> ReadOptions(Files& files, const CoordinatorFlags& own,
                                               const Cluster& cluster) {
  CoordinatorOptions options;
  ASSIGN_OR_RETURN(options.job, ReadJobFile(files, AbsolutePath(own.job), own.set));
  options.accept_changes = own.accept_changes;
  ASSIGN_OR_RETURN(options.ps_addresses, PsAddresses(cluster, own.ps));
  for (const std::string& ps : options.ps_addresses) {
    RETURN_IF_ERROR(CheckPlainText(own.shared.security, ps, "the ps at"));
  }
  options.insecure = own.shared.security.insecure;
  options.keep_job = own.keep_job;
  for (const auto& [index, address] : cluster.workers) {
    options.workers.push_back(Task{Role::kWorker, index}.ToString());
  }
  // Workers on one host, as those of paracord train, read the same files: the first need not wait
  // for another one to find the same.
  const auto here = [](const auto& worker) { return worker.second.starts_with("unix:"); };
  if (!cluster.workers.empty() && std::ranges::all_of(cluster.workers, here)) options.agree_ms = 0;
  return options;
}

std::string ListenAddress(const Logger& log, const DaemonFlags& shared, const Cluster& cluster) {
  if (!shared.listen.empty()) return shared.listen;
  WarnOfOwnLoopback(log, "the coordinator", "cluster.chief", cluster.coordinator, cluster);
  return cluster.coordinator;
}

// Says where the coordinator is, in what directory, and with which certificate.
void Place(CoordinatorOptions& options, const DaemonFlags& shared, const Daemon& daemon) {
  options.dir = AbsolutePath(shared.dir);
  options.charts = SchemeOf(options.dir).empty();  // their files grow
  options.host = HostName();
  if (const auto credentials = daemon.credentials(); credentials != nullptr) {
    options.certificate_expires_s = [credentials] {
      return credentials->Current()->expires_unix_s;
    };
  }
}

// The listeners' refusals are events of the job.
void HearRefusals(Coordinator& coordinator, Daemon& daemon) {
  daemon.refused()->Tell(
      [&coordinator, &loop = daemon.environment().loop](const std::string& said) {
        loop.Post([&coordinator, said] { coordinator.NoteRefused(said); });
      });
}

// Returns the source of what --http shows.
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
  CoordinatorFlags own;
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
  absl::StatusOr<CoordinatorOptions> read = ReadOptions(daemon.environment().files, own, *cluster);
  if (!read.ok()) return configuration(read.status());
  CoordinatorOptions options = *std::move(read);
  Place(options, own.shared, daemon);
  const Logger log("coordinator");
  WarnOfLoopbackPs(log, *cluster, options.ps_addresses);
  const std::string dir = options.dir;
  const int64_t drain_ms = options.job.timeouts.drain_ms;
  Coordinator coordinator(std::move(options), daemon.environment(),
                          [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
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
  // A coordinator that is draining is gone by then.
  const int64_t patience_ms = drain_ms + 1000;
  RivalCheck rival(daemon.environment(), dir, (*listener)->address(), patience_ms);
  const auto start = [&](const absl::Status& alone) {
    if (!alone.ok()) {
      daemon.Exit(static_cast<int>(ExitCode::kInUse), std::string(alone.message()));
      return;
    }
    coordinator.Start((*listener)->address());
  };
  daemon.environment().loop.Post([&] { rival.Start(start); });
  log.Info("listens at {address}", "address"_a = (*listener)->address());
  WarnOfOtherAddress(log, "the coordinator", "cluster.chief", cluster->coordinator,
                     (*listener)->address());
  const std::unique_ptr<ListenerCheck> check = daemon.CheckListener((*listener)->own_address());
  return daemon.Run([&](const std::string& signal) { coordinator.Drain(signal); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::RunProgram(argc, argv, paracord::Main); }
