// paracord-coordinator: owns the job.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/log.h"
#include "config/job_settings.h"
#include "coordinator/coordinator.h"
#include "coordinator/rival.h"
#include "net/grpc/daemon_process.h"

namespace paracord {
namespace {

struct CoordinatorFlags {
  DaemonFlags shared;
  std::string job;
  std::vector<std::string> set;
  std::string ps;
};

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

// Workers are told where the ps are by us.
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

int Main(int argc, char** argv) {
  Flags flags("paracord-coordinator", "Owns a job: variables, leases, checkpoints, evaluation.");
  CoordinatorFlags own;
  own.shared.AddTo(flags);
  flags.String("job", "FILE", "the job", &own.job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &own.set);
  flags.String("ps", "ADDRESS,...", "the parameter servers, where the cluster leaves them out",
               &own.ps);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv)) return *code;
  const auto configuration = [&](const absl::Status& status) {
    return Complain(argv[0], status, ExitCode::kConfiguration);
  };
  const absl::StatusOr<Cluster> cluster = FindCluster(own.shared);
  if (!cluster.ok()) return configuration(cluster.status());
  if (cluster->task->role != Role::kCoordinator) {
    return configuration(absl::InvalidArgumentError(
        absl::StrCat("needs the task coordinator (or chief), not ", cluster->task->ToString())));
  }
  if (own.shared.dir.empty() || own.job.empty()) {
    return configuration(absl::InvalidArgumentError("needs --job FILE and --dir DIR"));
  }
  Daemon daemon;
  const size_t peers = cluster->ps.size() + cluster->workers.size();
  if (const auto code = SetUpOrExit(own.shared, *cluster->task, peers, argv[0])) return *code;
  CoordinatorOptions options;
  absl::StatusOr<Job> job = ReadJobFile(daemon.environment().files, AbsolutePath(own.job), own.set);
  if (!job.ok()) return configuration(job.status());
  options.job = *std::move(job);
  absl::StatusOr<std::vector<std::string>> ps = PsAddresses(*cluster, own.ps);
  if (!ps.ok()) return configuration(ps.status());
  options.ps_addresses = *std::move(ps);
  const std::vector<std::string> ps_addresses = options.ps_addresses;
  for (const auto& [index, address] : cluster->workers) {
    options.workers.push_back(Task{Role::kWorker, index}.ToString());
  }
  if (const auto code = MakeDirOrExit(daemon.environment().files, argv[0], own.shared.dir)) {
    return *code;
  }
  options.dir = own.shared.dir;
  options.charts = SchemeOf(options.dir).empty();  // their files grow
  options.host = HostName();
  std::string listen = own.shared.listen.empty() ? cluster->coordinator : own.shared.listen;
  if (listen.empty()) {
    return configuration(
        NoAddress(*cluster, "the coordinator", "cluster.chief", "give --listen ADDRESS"));
  }
  const std::string dir = options.dir;
  const int64_t drain_ms = options.job.timeouts.drain_ms;
  Coordinator coordinator(std::move(options), daemon.environment(),
                          [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  const Logger log("coordinator");
  if (own.shared.listen.empty()) {
    listen = AddressForOthers(log, "the coordinator", "cluster.chief", listen, *cluster);
  }
  WarnOfLoopbackPs(log, *cluster, ps_addresses);
  HealthService service(
      "coordinator", daemon.environment().loop, [&] { return coordinator.Health(); }, &coordinator);
  const auto listener = daemon.Listen(listen, service, log);
  if (!listener.ok()) {
    return Complain(argv[0], listener.status(), ListenExitCode(listener.status()));
  }
  // One that is draining is gone by then.
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
  log.Info("listens at {}", (*listener)->address());
  WarnOfOtherAddress(log, "the coordinator", "cluster.chief", cluster->coordinator,
                     (*listener)->address());
  const std::unique_ptr<SelfProbe> probe = daemon.Probe((*listener)->own_address());
  return daemon.Run([&](const std::string& signal) { coordinator.Drain(signal); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::RunProgram(argc, argv, paracord::Main); }
