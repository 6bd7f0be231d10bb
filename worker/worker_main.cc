// paracord-worker: computes gradients.
#include <algorithm>
#include <iostream>
#include <thread>

#include "common/grpc_daemon.h"
#include "common/log.h"
#include "worker/worker.h"

namespace paracord {
namespace {

int Main(int argc, char** argv) {
  Flags flags("paracord-worker",
              "Computes gradients of batches that the coordinator leases to it.");
  DaemonFlags shared;
  shared.AddTo(flags);
  WorkerOptions options;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  flags.String("device", "DEVICE", "auto or cpu", &options.device);
  flags.Integer("threads", "N", "threads that compute", 1, 1024, &threads);
  flags.String("coordinator", "ADDRESS", "the coordinator, where the cluster leaves it out",
               &options.coordinator);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv)) return *code;
  const absl::StatusOr<Cluster> cluster = FindCluster(shared);
  if (!cluster.ok()) return Complain(argv[0], cluster.status(), ExitCode::kConfiguration);
  const auto configuration = [&](const char* what) {
    return Complain(argv[0], absl::InvalidArgumentError(what), ExitCode::kConfiguration);
  };
  if (cluster->task->role != Role::kWorker) return configuration("needs a task worker:INDEX");
  if (options.device == "auto") options.device = "cpu";
  if (options.device != "cpu") return configuration("--device: this build computes on cpu only");
  options.dir = shared.dir;
  options.task = cluster->task->ToString();
  if (options.coordinator.empty()) options.coordinator = cluster->coordinator;
  if (options.coordinator.empty()) {
    return configuration(
        "the cluster gives no address of the coordinator (key cluster.chief): give --coordinator");
  }
  const absl::Status address = CheckAddress(options.coordinator, "--coordinator");
  if (!address.ok()) return Complain(argv[0], address, ExitCode::kConfiguration);
  Daemon daemon;
  SetUpLogging(shared.log_level);
  Worker worker(
      options,
      [&](const Job& job) {
        return OpenWorkload(daemon.environment().files, job, static_cast<int>(threads));
      },
      daemon.environment(),
      [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  daemon.environment().loop.Post([&] { worker.Start(); });
  return daemon.Run([&] { worker.Drain(); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { return paracord::Main(argc, argv); }
