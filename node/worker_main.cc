// paracord-worker: computes gradients, holds variables too if it is a node, or scores checkpoints.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/memory_budget.h"
#include "common/parallel.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "config/nodes.h"
#include "daemon/daemon_process.h"
#include "node/compute_main.h"
#include "node/node_main.h"
#include "worker/evaluator.h"
#include "worker/worker.h"

namespace paracord {
namespace {

// Draws a task for a worker whose number nobody has chosen. If another worker has the number, which
// is seldom, the worker leaves with kInUse and draws again after its restart.
std::string AnyTask() {
  constexpr uint32_t kFirst = 4096, kEnd = 65536;  // above numbers that people choose
  SystemRandom random;
  return absl::StrCat("worker:", kFirst + random.Next() % (kEnd - kFirst));
}

// Returns the source of what --http shows.
MonitorSource Shown(const Worker& worker) {
  MonitorSource source;
  source.health = [&worker] { return worker.Health(); };
  source.measure = [&worker](MetricSet& metrics) { worker.AddMetrics(metrics); };
  return source;
}

int RunWorker(WorkerOptions options, const DaemonFlags& shared, const GrpcOptions& grpc,
              const Computer& computer, const Cluster& cluster, const char* program) {
  Daemon daemon(grpc, std::make_shared<MemoryBudget>(computer.memory_limit));
  const std::string task = options.task;
  SetParallelThreads(computer.use.threads);  // threads that encode gradients
  const OpenWorkloadFn open = Opener(daemon, computer, options.dir, /*trains=*/true);
  Worker worker(std::move(options), open, daemon.environment(),
                [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  HealthService health(
      task, daemon.environment().loop, [&worker] { return worker.Health(); }, nullptr);
  absl::StatusOr<std::unique_ptr<Listener>> listener = nullptr;
  if (!shared.listen.empty()) listener = daemon.Listen(shared.listen, health, Logger(task));
  if (!listener.ok()) {
    return Complain(program, listener.status(), ListenExitCode(listener.status()));
  }
  // A worker that does not listen reports its health under its address in the cluster.
  const auto own = cluster.workers.find(cluster.task->index);
  const std::string own_address = own == cluster.workers.end() ? "" : own->second;
  const std::string at = *listener == nullptr ? own_address : (*listener)->address();
  daemon.AnswerLocally(at, task, [&worker] { return worker.Health(); });
  const auto monitor = StartMonitor(shared, *ParseTask(task), daemon, Shown(worker));
  if (!monitor.ok()) return Complain(program, monitor.status(), ListenExitCode(monitor.status()));
  daemon.environment().loop.Post([&] { worker.Start(); });
  const int code = daemon.Run([&](const std::string& signal) { worker.Drain(signal); });
  computer.programs.running->EndAll();
  // Leaves at once, because the daemon's end would wait while data are opened.
  LeaveProcess(code);
}

int RunEvaluator(EvaluatorOptions options, const DaemonFlags& shared, const GrpcOptions& grpc,
                 const Computer& computer, const char* program) {
  Daemon daemon(grpc, std::make_shared<MemoryBudget>(computer.memory_limit));
  const absl::StatusOr<Task> task = ParseTask(options.task);
  const OpenWorkloadFn open = Opener(daemon, computer, options.dir, /*trains=*/false);
  Evaluator evaluator(std::move(options), open, daemon.environment(),
                      [&](int code, const std::string& reason) { daemon.Exit(code, reason); });
  MonitorSource source;
  source.health = [] { return HealthState{true, "scores checkpoints"}; };
  const auto monitor = StartMonitor(shared, *task, daemon, std::move(source));
  if (!monitor.ok()) return Complain(program, monitor.status(), ListenExitCode(monitor.status()));
  daemon.environment().loop.Post([&] { evaluator.Start(); });
  return daemon.Run([&](const std::string&) { evaluator.Drain(); });
}

// The flags of every role of the program.
struct WorkerFlags {
  DaemonFlags shared;
  ComputerFlags computer;
  NodeFlags node;
  WorkerOptions worker;

  void AddTo(Flags& flags);
};

void WorkerFlags::AddTo(Flags& flags) {
  shared.AddTo(flags);
  computer.AddTo(flags);
  flags.String("coordinator", "ADDRESS", "the coordinator, where the cluster leaves it out",
               &worker.coordinator);
  flags.Switch("stay",
               "when the job is done, give the memory back and wait for SIGTERM or another "
               "coordinator, for a supervisor that starts again whatever exits",
               &worker.stay);
  node.AddTo(flags);
}

// Returns the address to listen on; "" if no peer calls the task.
std::string ListenAddressOf(const DaemonFlags& shared, const Cluster& cluster) {
  const Task& task = *cluster.task;
  if (task.role != Role::kWorker) return "";
  return IsNode(cluster, task) ? NodeListenAddress(shared, cluster) : shared.listen;
}

// Loads the credentials of the task and checks that the task may dial the coordinator, if there is
// one. An evaluator, which no certificate names, may have the certificate of any role.
absl::Status Secure(const DaemonFlags& shared, const Cluster& cluster,
                    const std::string& coordinator, GrpcOptions& grpc) {
  const Task& task = *cluster.task;
  const std::string own = task.role == Role::kWorker ? task.ToString() : "";
  RETURN_IF_ERROR(AwaitSecurity(shared, own, ListenAddressOf(shared, cluster), grpc));
  if (coordinator.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAddress(coordinator, "--coordinator"));
  return CheckPlainText(shared.security, coordinator, "the coordinator at");
}

// Runs the task with its credentials loaded; returns the exit code.
int RunTask(WorkerFlags& own, const Cluster& cluster, const GrpcOptions& grpc,
            const Computer& computer, const char* program) {
  const Task& task = *cluster.task;
  own.worker.device = computer.device;
  own.worker.task = task.ToString();
  own.worker.dir = own.shared.dir.empty() ? "" : AbsolutePath(own.shared.dir);
  own.worker.host = HostName();
  const size_t nodes = IsNode(cluster, task) ? cluster.workers.size() : 0;
  const size_t peers = cluster.ps.size() + nodes + 1;
  if (const auto code = SetUpOrExit(own.shared, task, peers, program)) return *code;
  if (task.role == Role::kEvaluator) {
    return RunEvaluator({.task = own.worker.task,
                         .dir = own.worker.dir,
                         .host = own.worker.host,
                         .coordinator = own.worker.coordinator},
                        own.shared, grpc, computer, program);
  }
  if (IsNode(cluster, task)) {
    return RunNode(std::move(own.worker), own.node, own.shared, grpc, computer, cluster, program);
  }
  return RunWorker(std::move(own.worker), own.shared, grpc, computer, cluster, program);
}

// Checks that this program has the task's role, and that the task has all flags and keys.
absl::Status CheckTask(const WorkerFlags& own, const Cluster& cluster, Credentials* credentials) {
  const Task& task = *cluster.task;
  if (task.role == Role::kEvaluator) {
    if (!own.shared.dir.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(task.ToString() + " needs --dir DIR");
  }
  if (task.role != Role::kWorker) {
    return absl::InvalidArgumentError("needs a task worker:INDEX or evaluator:INDEX, not " +
                                      task.ToString());
  }
  if (IsNode(cluster, task)) {
    return CheckNode(own.node, own.shared, own.worker, cluster, credentials);
  }
  if (!own.worker.coordinator.empty()) return absl::OkStatus();
  return NoAddress(cluster, "the coordinator", "cluster.chief", "give --coordinator ADDRESS");
}

// A node needs room for a worker and for a ps.
absl::StatusOr<uint64_t> MemoryLimitOf(const DaemonFlags& shared, const Cluster& cluster) {
  if (!IsNode(cluster, *cluster.task)) return shared.MemoryLimit();
  absl::StatusOr<uint64_t> limit = shared.MemoryLimit(kNodeMemoryParts * MemoryBudget::kLimitMin);
  if (limit.ok()) return limit;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(limit.status().message()), " for ", cluster.task->ToString(),
                   ", which holds variables besides (the cluster has no ps: key cluster.ps)"));
}

int Main(int argc, char** argv) {
  Flags flags(
      "paracord-worker",
      "Computes gradients of batches that the coordinator leases to it. Where the cluster names\n"
      "workers and no ps, they are nodes: each listens at its address and holds a share of the\n"
      "variables in --dir as a ps does, and worker 0 owns the --job if the cluster has no chief.\n"
      "With a task evaluator:INDEX it scores the checkpoints in --dir instead. As task worker,\n"
      "without an index, it is the node whose address has the name of this host. Where there is\n"
      "none, or with --coordinator, it draws an index, computes alone, and listens for its\n"
      "supervisor's questions at --listen.");
  WorkerFlags own;
  own.AddTo(flags);
  if (const auto code = ParseOrExit(flags, argc, argv, own.shared)) return *code;
  const auto refuse = [&](const absl::Status& status) {
    return Complain(argv[0], status, ExitCode::kConfiguration);
  };
  const bool unnumbered = own.shared.task == "worker";
  if (unnumbered) own.shared.task = AnyTask();
  absl::StatusOr<Cluster> cluster = FindCluster(own.shared);
  if (!cluster.ok()) return refuse(cluster.status());
  if (unnumbered && own.worker.coordinator.empty()) {
    const auto node = NodeOnHost(*cluster, HostName());
    if (node.has_value()) cluster->task = Task{Role::kWorker, *node};
  }
  const absl::StatusOr<uint64_t> memory_limit = MemoryLimitOf(own.shared, *cluster);
  if (!memory_limit.ok()) return refuse(memory_limit.status());
  BlockLeaveSignals();
  const absl::StatusOr<Computer> computer =
      ChooseComputer(own.computer, *cluster->task, *memory_limit);
  if (!computer.ok()) return refuse(computer.status());
  const bool elsewhere = !own.worker.coordinator.empty();
  if (!elsewhere) own.worker.coordinator = CoordinatorOf(*cluster);
  own.shared.security.nodes = NodeRightsIn(*cluster);
  GrpcOptions grpc;
  const absl::Status safe = Secure(own.shared, *cluster, own.worker.coordinator, grpc);
  if (!safe.ok()) return Complain(argv[0], safe, SecurityExitCode(safe));
  const absl::Status checked = CheckTask(own, *cluster, grpc.credentials.get());
  if (!checked.ok()) return refuse(checked);
  return RunTask(own, *cluster, grpc, *computer, argv[0]);
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) {
  // Threads of OpenMP would spin while waiting, on cores that other daemons need. OpenMP reads the
  // variable when it is loaded, before main.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    std::error_code none;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", none).string();
    if (!none) execv(self.c_str(), argv);
  }
  paracord::RunProgram(argc, argv, paracord::Main);
}
