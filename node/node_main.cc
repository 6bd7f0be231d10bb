#include "node/node_main.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "common/thread_loop.h"
#include "config/nodes.h"
#include "coordinator/status_page.h"
#include "node/node.h"
#include "tensor/device.h"

namespace paracord {
namespace {

// Whether this node is the coordinator as well.
bool LeadsItself(const WorkerOptions& worker, const Cluster& cluster) {
  return cluster.task->index == 0 && cluster.coordinator.empty() &&
         worker.coordinator == CoordinatorOf(cluster);
}

absl::StatusOr<NodeOptions> OptionsOf(WorkerOptions worker, const NodeFlags& flags,
                                      const DaemonFlags& shared, const Cluster& cluster,
                                      const Computer& computer, Daemon& daemon) {
  NodeOptions options;
  options.address = cluster.workers.at(cluster.task->index);
  options.ps.index = cluster.task->index;
  options.ps.dir = worker.dir;
  options.ps.host = worker.host;
  options.ps.stay = worker.stay;
  options.ps.memory = daemon.memory();
  options.ps.refused_peer = [refused = daemon.refused()] { return refused->last(); };
  flags.ps.Set(options.ps);
  if (LeadsItself(worker, cluster)) {
    ASSIGN_OR_RETURN(std::vector<std::string> nodes, PsAddressesOf(cluster));
    const CoordinatorPlace place{.dir = worker.dir,
                                 .host = worker.host,
                                 .credentials = daemon.credentials(),
                                 .insecure = shared.security.insecure,
                                 .devices = computer.devices,
                                 .divides_batches = computer.use.device == kAllGpus};
    ASSIGN_OR_RETURN(options.coordinator,
                     ReadCoordinatorOptions(daemon.environment().files, flags.coordinator, cluster,
                                            std::move(nodes), place));
  }
  options.worker = std::move(worker);
  return options;
}

// Returns the source of what --http shows.
MonitorSource Shown(Node& node) {
  MonitorSource source;
  source.health = [&node] { return node.Health(); };
  source.measure = [&node](MetricSet& metrics) { node.AddMetrics(metrics); };
  if (node.coordinator() != nullptr) {
    source.status = [&node] { return node.PageJson(); };
    source.page = kStatusPage;
  }
  return source;
}

// Threads of a node beside the daemon's threads, on which gradients are computed.
struct NodeThreads {
  explicit NodeThreads(EventLoop& loop)
      : ps(loop), exchanges(loop), calls(loop), coordinator(loop) {}
  ThreadExecutor ps, exchanges, calls, coordinator;
};

}  // namespace

NodeFlags::NodeFlags() : ps_threads(std::max(1u, std::thread::hardware_concurrency())) {}

void NodeFlags::AddTo(Flags& flags) {
  coordinator.AddTo(flags);
  ps.AddTo(flags);
  flags.Integer("ps-threads", "N", "of a node: threads that apply one push", 1, 1024, &ps_threads);
}

std::string NodeListenAddress(const DaemonFlags& shared, const Cluster& cluster) {
  return shared.listen.empty() ? cluster.workers.at(cluster.task->index) : shared.listen;
}

absl::Status CheckNode(const NodeFlags& flags, const DaemonFlags& shared,
                       const WorkerOptions& worker, const Cluster& cluster, Credentials* own) {
  const std::string task = cluster.task->ToString();
  ASSIGN_OR_RETURN(const std::vector<std::string> nodes, PsAddressesOf(cluster));
  if (shared.dir.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(task,
                     " needs --dir DIR: the cluster has no ps (key cluster.ps), so that its "
                     "workers hold the variables"));
  }
  for (const std::string& node : nodes) {
    RETURN_IF_ERROR(CheckPlainText(shared.security, node, "the worker at"));
  }
  if (!LeadsItself(worker, cluster)) return absl::OkStatus();
  const auto identity = own == nullptr ? std::nullopt : own->Current()->own;
  if (identity.has_value() && !identity->index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-cert ", shared.security.cert, " is of ", identity->Uri(),
                     ", which is every worker, and ", task,
                     " is the coordinator as well (no key cluster.chief), as whom others believe "
                     "only ",
                     identity->Uri(), "/0: give it a certificate of that name, or name a chief"));
  }
  if (!flags.coordinator.job.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(task,
                   " needs --job FILE: the cluster has neither ps nor chief (keys cluster.ps and "
                   "cluster.chief), so that worker 0 is its coordinator"));
}

int RunNode(WorkerOptions worker, const NodeFlags& flags, const DaemonFlags& shared,
            const GrpcOptions& grpc, Computer computer, const Cluster& cluster,
            const char* program) {
  const std::string task = worker.task;
  const uint64_t part = NodeMemoryPart(computer.memory_limit);
  computer.memory_limit = computer.programs.memory_max = part;
  computer.memory_parts = kNodeMemoryParts;
  Daemon daemon(grpc, flags.ps.Memory(part, kNodeMemoryParts));
  EventLoop& loop = daemon.environment().loop;
  SetParallelThreads(static_cast<int>(flags.ps_threads));
  NodeThreads threads(loop);
  KeepTrimming(loop, threads.exchanges);
  const OpenWorkloadFn open = Opener(daemon, computer, worker.dir, /*trains=*/true);
  const std::string dir = worker.dir;
  absl::StatusOr<NodeOptions> options =
      OptionsOf(std::move(worker), flags, shared, cluster, computer, daemon);
  if (!options.ok()) return Complain(program, options.status(), ExitCode::kConfiguration);
  Node node(*std::move(options), open, daemon.environment(),
            {daemon.environment().executor, threads.ps, threads.exchanges, threads.calls,
             threads.coordinator},
            [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  daemon.refused()->Tell(
      [&](const std::string& said) { loop.Post([&node, said] { node.NoteRefused(said); }); });
  const Logger log(task);
  const std::string& expected = cluster.workers.at(cluster.task->index);
  const std::string key = absl::StrCat("cluster.worker[", cluster.task->index, "]");
  if (shared.listen.empty()) WarnOfOwnLoopback(log, task, key, expected, cluster);
  HealthService health(
      task, loop, [&node] { return node.Health(); }, &node);
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      daemon.Listen(NodeListenAddress(shared, cluster), health, log);
  if (!listener.ok()) {
    return Complain(program, listener.status(), ListenExitCode(listener.status()));
  }
  const std::string address = (*listener)->address();
  log.Info("listens at {address}", "address"_a = address);
  daemon.AnswerLocally(address, task, [&node] { return node.Health(); });
  daemon.MakeDir(dir, log);
  WarnOfOtherAddress(log, task, key, expected, address);
  const auto monitor = StartMonitor(shared, *cluster.task, daemon, Shown(node));
  if (!monitor.ok()) return Complain(program, monitor.status(), ListenExitCode(monitor.status()));
  absl::StatusOr<std::unique_ptr<Listener>> offer = nullptr;
  if (flags.ps.shared_memory) {
    offer = OfferSharedMemory(node.ps(), daemon.request_budget(), daemon.credentials().get());
  }
  if (!offer.ok()) log.Warn("{}", std::string(offer.status().message()));
  std::unique_ptr<ListenerCheck> check = daemon.CheckListener((*listener)->own_address());
  loop.Post([&] { node.Start(address); });
  const int code = daemon.Run([&](const std::string& signal) { node.Drain(signal); });
  check.reset();
  listener->reset();  // lets answers to other nodes leave
  computer.programs.running->EndAll();
  // Leaves at once, because the daemon's end would wait while data are opened.
  LeaveProcess(code);
}

}  // namespace paracord
