#include "coordinator/coordinator_process.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "config/job_settings.h"
#include "config/nodes.h"
#include "config/strategy.h"
#include "coordinator/saved_job.h"

namespace paracord {

void CoordinatorFlags::AddTo(Flags& flags) {
  flags.String("job", "FILE", "the job", &job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
  flags.Strings("accept-change", "FILE", kAcceptChangeHelp, &accept_changes);
  flags.Switch("keep-job",
               "go on with the job in --dir where the one given has keys that cannot change, and "
               "name them, instead of leaving with 2",
               &keep_job);
}

absl::StatusOr<CoordinatorOptions> ReadCoordinatorOptions(Files& files,
                                                          const CoordinatorFlags& flags,
                                                          const Cluster& cluster,
                                                          std::vector<std::string> ps_addresses,
                                                          const CoordinatorPlace& place) {
  CoordinatorOptions options;
  const absl::StatusOr<std::vector<std::string>> nodes = PsAddressesOf(cluster);
  options.nodes = HasNodes(cluster) && nodes.ok() && *nodes == ps_addresses;
  const ClusterShape shape{.ps = options.nodes ? 0 : ps_addresses.size(),
                           .workers = cluster.workers.size(),
                           .devices = place.devices,
                           .divides_batches = place.divides_batches};
  const auto read = [&](std::span<const std::string> settings) {
    return ReadJobFile(files, AbsolutePath(flags.job), settings);
  };
  const auto saved = [&]() -> std::optional<Job> {
    std::optional<SavedJob> before = ReadSavedJob(files, place.dir);
    if (!before.has_value()) return std::nullopt;
    return std::move(before->job);
  };
  ASSIGN_OR_RETURN(JobInCluster job, ReadJobIn(shape, flags.set, read, saved));
  if (options.nodes) {
    Logger("coordinator").Info("strategy: {}, because {}", job.strategy.name, job.strategy.why);
  }
  options.job = std::move(job.job);
  options.accept_changes = flags.accept_changes;
  options.ps_addresses = std::move(ps_addresses);
  options.keep_job = flags.keep_job;
  for (const auto& [index, address] : cluster.workers) {
    options.workers.push_back(Task{Role::kWorker, index}.ToString());
  }
  // Workers on one host (as `paracord train` starts them) read the same files: the facts of the
  // first worker need no confirmation by a second.
  const auto here = [](const auto& worker) { return worker.second.starts_with("unix:"); };
  if (!cluster.workers.empty() && std::ranges::all_of(cluster.workers, here)) options.agree_ms = 0;
  options.dir = place.dir;
  options.charts = SchemeOf(options.dir).empty();  // event files are appended to
  options.host = place.host;
  options.insecure = place.insecure;
  if (place.credentials != nullptr) {
    options.certificate_expires_s = [credentials = place.credentials] {
      return credentials->Current()->expires_unix_s;
    };
  }
  return options;
}

CoordinatorStart::CoordinatorStart(Coordinator& coordinator, const Environment& environment,
                                   std::string address,
                                   std::function<void(int exit_code, std::string reason)> exit)
    : coordinator_(coordinator),
      address_(std::move(address)),
      exit_(std::move(exit)),
      // A rival that is draining is gone by then.
      rival_(environment, coordinator.options().dir, address_,
             coordinator.options().job.timeouts.drain_ms + 1000) {}

void CoordinatorStart::Begin() {
  rival_.Start([this](const absl::Status& alone) {
    if (alone.ok()) return coordinator_.Start(address_);
    exit_(static_cast<int>(ExitCode::kInUse), std::string(alone.message()));
  });
}

}  // namespace paracord
