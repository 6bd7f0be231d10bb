// paracord-ps: holds partitions of the variables.
#include <iostream>

#include "common/grpc_daemon.h"
#include "common/log.h"
#include "server/parameter_server.h"

namespace paracord {
namespace {

int Main(int argc, char** argv) {
  Flags flags("paracord-ps",
              "Holds partitions of a job's variables and applies gradients to them.");
  DaemonFlags shared;
  shared.AddTo(flags);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv)) return *code;
  const absl::StatusOr<Cluster> cluster = FindCluster(shared);
  if (!cluster.ok()) return Complain(argv[0], cluster.status(), ExitCode::kConfiguration);
  const uint32_t index = cluster->task->index;
  if (cluster->task->role != Role::kPs || shared.dir.empty()) {
    return Complain(argv[0], absl::InvalidArgumentError("needs --dir and a task ps:INDEX"),
                    ExitCode::kConfiguration);
  }
  std::string listen = shared.listen;
  if (listen.empty() && index < cluster->ps.size()) listen = cluster->ps[index];
  if (listen.empty()) {
    return Complain(argv[0],
                    absl::InvalidArgumentError("the cluster gives this task no address (key "
                                               "cluster.ps): give --listen ADDRESS"),
                    ExitCode::kConfiguration);
  }
  Daemon daemon;
  SetUpLogging(shared.log_level);
  if (const auto code = MakeDirOrExit(daemon.environment().files, argv[0], shared.dir)) {
    return *code;
  }
  PsOptions options;
  options.index = index;
  options.dir = shared.dir;
  ParameterServer ps(options, daemon.environment(),
                     [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  const auto listener = daemon.environment().network.Listen(listen, ps);
  if (!listener.ok())
    return Complain(argv[0], listener.status(), ListenExitCode(listener.status()));
  Logger(cluster->task->ToString()).Info("listens at {}", (*listener)->address());
  const std::unique_ptr<SelfProbe> probe = daemon.Probe((*listener)->address());
  return daemon.Run([&] { ps.Drain(); });
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) { paracord::LeaveProcess(paracord::Main(argc, argv)); }
