// paracord-worker: computes gradients, or scores checkpoints.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/memory_budget.h"
#include "common/parallel.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "data/kept_bytes.h"
#include "keras/job_program.h"
#include "net/grpc/daemon_process.h"
#include "program/workload.h"
#include "tensor/device.h"
#include "worker/device_watch.h"
#include "worker/evaluator.h"
#include "worker/own_memory.h"
#include "worker/worker.h"

namespace paracord {
namespace {

// The computer is what --device and --threads say.
struct Computer {
  DeviceUse use;
  std::string note;     // why it is not a GPU
  ProgramUse programs;  // of jobs whose model is one
  uint64_t memory_limit = MemoryBudget::kUnlimited;
};

// A task for one of many workers that nobody has numbered. Should another have it, which is seldom,
// it has to leave with kInUse, and draws again when it is started again.
std::string AnyTask() {
  constexpr uint32_t kFirst = 4096, kEnd = 65536;  // above those that people number
  SystemRandom random;
  return absl::StrCat("worker:", kFirst + random.Next() % (kEnd - kFirst));
}

// The threads of each of `devices` devices: those that the job wants of each worker, as far as
// there are so many here, or a share of them.
int ThreadsFor(const Job& job, int threads, size_t devices) {
  if (!job.guarantees.threads.has_value()) return std::max(1, threads / static_cast<int>(devices));
  return std::min(threads, static_cast<int>(*job.guarantees.threads));
}

void WarnOfThreads(const Job& job, int threads) {
  const int wanted = static_cast<int>(job.guarantees.threads.value_or(1));
  if (threads >= wanted) return;
  Logger("device").Warn(
      "the job wants each batch computed by {} threads (key threads), and this worker has "
      "--threads {}: it computes with {}, so that its gradients may differ from those of other "
      "workers in the last bits",
      wanted, threads, threads);
}

// The devices that compute lanes of the job, or whole batches if there is one. All GPUs together
// may also compute a part of each batch.
absl::StatusOr<std::vector<std::string>> DevicesFor(const Job& job, const std::string& device) {
  if (!job.guarantees.rounds() && device == kAllGpus) return std::vector<std::string>{device};
  return DevicesOf(device);
}

absl::Status RefuseSeveral(const std::string& device) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--device ", device,
      ": several devices compute the lanes of a round, and with `consistency` \"async\" there are "
      "no rounds: give the job \"sync\" or {\"staleness\": S}, or start a worker for each device"));
}

absl::Status CheckCrossDeviceOps(const Job& job, const std::vector<std::string>& devices) {
  if (job.guarantees.cross_device_ops != CrossDeviceOps::kNccl) return absl::OkStatus();
  for (const std::string& device : devices) {
    if (device.starts_with("cuda:")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cross_device_ops: \"nccl\" adds up lanes of CUDA devices, and this worker computes on ",
        device, " (--device): give \"hierarchical_copy\""));
  }
  Logger("device").Warn("the lanes of its devices are added up by the processor, not by NCCL");
  return absl::OkStatus();
}

// What the bits depend on that the job's devices compute.
std::string NumericsFor(const Job& job, const Computer& computer) {
  const absl::StatusOr<std::vector<std::string>> devices = DevicesFor(job, computer.use.device);
  if (!devices.ok() || IsProgram(job.model)) return "";
  return NumericsOf(devices->front(), ThreadsFor(job, computer.use.threads, devices->size()));
}

// Builds the job's program on each of its devices.
absl::StatusOr<std::vector<DeviceProgram>> BuildOnDevices(const Job& job, const Batch& schema,
                                                          const Computer& computer, bool trains) {
  std::vector<DeviceProgram> programs;
  DeviceUse use = computer.use;
  if (!trains) {
    ASSIGN_OR_RETURN(DeviceProgram one, BuildJobProgram(job, schema, use, computer.programs));
    programs.push_back(std::move(one));
    return programs;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, DevicesFor(job, use.device));
  if (devices.size() > 1 && !job.guarantees.rounds()) return RefuseSeveral(computer.use.device);
  RETURN_IF_ERROR(CheckCrossDeviceOps(job, devices));
  WarnOfThreads(job, use.threads);
  use.threads = ThreadsFor(job, use.threads, devices.size());
  for (const std::string& device : devices) {
    use.device = device;
    // A plug-in may have several by one name.
    ASSIGN_OR_RETURN(std::vector<DeviceProgram> built,
                     BuildJobPrograms(job, schema, use, computer.programs));
    for (DeviceProgram& each : built) programs.push_back(std::move(each));
  }
  if (programs.size() > 1 && !job.guarantees.rounds()) return RefuseSeveral(computer.use.device);
  return programs;
}

// Everything that computes, gradients too if it trains. A device that is lost ends the process.
OpenWorkloadFn Opener(Daemon& daemon, Computer computer, const std::string& dir, bool trains) {
  if (!computer.note.empty()) Logger("device").Info("{}", computer.note);
  const auto lost = [&daemon](const std::string& why) {
    daemon.environment().loop.Post(
        [&daemon, why] { daemon.Exit(static_cast<int>(ExitCode::kDeviceFailed), why); });
  };
  const KeepPlace keep = PlaceIn(dir, daemon.environment().random);
  computer.programs.compiled = CompiledIn(daemon.environment().files, dir,
                                          daemon.environment().random, computer.programs.allowed);
  return [&daemon, computer, lost, keep, trains](const Job& job) -> absl::StatusOr<Workload> {
    std::string device;
    std::vector<std::unique_ptr<GradientProgram>> others;
    const auto build =
        [&](const Job& of,
            const Batch& schema) -> absl::StatusOr<std::unique_ptr<GradientProgram>> {
      ASSIGN_OR_RETURN(std::vector<DeviceProgram> built,
                       BuildOnDevices(of, schema, computer, trains));
      if (!built[0].note.empty()) Logger("device").Warn("{}", built[0].note);
      device = built.size() > 1 ? computer.use.device : built[0].device;
      for (size_t i = 1; i < built.size(); ++i) {
        others.push_back(WatchDevice(std::move(built[i].program), lost));
      }
      return std::move(built[0].program);
    };
    const uint64_t limit = daemon.memory()->limit();
    const uint64_t own = std::min(limit, MemoryBudget::kProgramBytes);
    Files& files = daemon.environment().files;
    const auto memory = std::make_shared<MemoryShare>(limit - own, 0);
    Workload workload;
    if (trains || !job.test.has_value()) {
      ASSIGN_OR_RETURN(workload, OpenWorkload(files, job, build, keep, memory));
    } else {
      DataSpec test = *job.test;
      test.memory = memory;
      ASSIGN_OR_RETURN(workload, OpenSource(files, job, std::move(test), build, keep));
    }
    for (const std::string& line : workload.warnings) Logger("data").Warn("{}", line);
    Logger("device").Info("{}: {}", device, workload.program->Memory());
    RETURN_IF_ERROR(CheckOwnMemory(workload.program->variables(), trains ? 1 + others.size() : 0,
                                   daemon.memory()->limit()));
    workload.device = device;
    if (trains) workload.numerics = NumericsFor(job, computer);
    workload.program = WatchDevice(std::move(workload.program), lost);
    if (!others.empty()) {
      workload.devices = std::make_unique<LaneDevices>(*workload.program, std::move(others),
                                                       job.guarantees.cross_device_ops);
    }
    return workload;
  };
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
  SetParallelThreads(computer.use.threads);  // that encode gradients
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
  // A worker that does not listen tells its health by the address that the cluster gives it.
  const auto own = cluster.workers.find(cluster.task->index);
  const std::string own_address = own == cluster.workers.end() ? "" : own->second;
  const std::string at = *listener == nullptr ? own_address : (*listener)->address();
  daemon.AnswerLocally(at, task, [&worker] { return worker.Health(); });
  const auto monitor = StartMonitor(shared, *ParseTask(task), daemon, Shown(worker));
  if (!monitor.ok()) return Complain(program, monitor.status(), ListenExitCode(monitor.status()));
  daemon.environment().loop.Post([&] { worker.Start(); });
  const int code = daemon.Run([&](const std::string& signal) { worker.Drain(signal); });
  computer.programs.running->EndAll();
  // At once: the end of the daemon would wait for data that are being opened.
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

// Adds the flags that the worker alone has; their targets must outlive `flags`.
void AddFlags(Flags& flags, WorkerOptions& options, Computer& computer, std::string& device,
              int64_t& threads) {
  flags.String("device", "DEVICE",
               "auto, cpu, cuda:N, or pjrt:PATH[:N], a plug-in (and its device) for programs of "
               "StableHLO; in a job with rounds several devices may each compute lanes: cpu:N, "
               "cuda:N,M, pjrt:PATH:N,M, pjrt:PATH:all, or cuda:all, which has each GPU compute a "
               "part of every batch otherwise",
               &device);
  flags.Integer("threads", "N", "threads that compute", 1, 1024, &threads);
  flags.String("coordinator", "ADDRESS", "the coordinator, where the cluster leaves it out",
               &options.coordinator);
  flags.Switch("allow-programs",
               "run the command of a job whose model is a program, and load from --dir what a "
               "plug-in has compiled: code of whoever writes the job",
               &computer.programs.allowed);
  flags.Switch("stay",
               "when the job is done, give the memory back and wait for SIGTERM or another "
               "coordinator, for a supervisor that starts again whatever exits",
               &options.stay);
}

// Loads the credentials of the task, and checks that it may dial the coordinator, if it has one.
absl::Status Secure(const DaemonFlags& shared, const Task& task, const std::string& coordinator,
                    GrpcOptions& grpc) {
  const bool listens = task.role == Role::kWorker && !shared.listen.empty();
  RETURN_IF_ERROR(AwaitSecurity(shared, listens ? task.ToString() : "", shared.listen, grpc));
  if (coordinator.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAddress(coordinator, "--coordinator"));
  return CheckPlainText(shared.security, coordinator, "the coordinator at");
}

int Main(int argc, char** argv) {
  Flags flags(
      "paracord-worker",
      "Computes gradients of batches that the coordinator leases to it. With a task\n"
      "evaluator:INDEX it scores the checkpoints in --dir instead. As task worker, without an\n"
      "index, it draws one, and listens for its supervisor's questions at --listen alone.");
  DaemonFlags shared;
  shared.AddTo(flags);
  WorkerOptions options;
  std::string device = "auto";
  Computer computer;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  AddFlags(flags, options, computer, device, threads);
  if (const std::optional<int> code = ParseOrExit(flags, argc, argv, shared)) return *code;
  const auto refuse = [&](const absl::Status& status) {
    return Complain(argv[0], status, ExitCode::kConfiguration);
  };
  if (shared.task == "worker") shared.task = AnyTask();
  const absl::StatusOr<Cluster> cluster = FindCluster(shared);
  if (!cluster.ok()) return refuse(cluster.status());
  const absl::StatusOr<uint64_t> memory_limit = shared.MemoryLimit();
  if (!memory_limit.ok()) return refuse(memory_limit.status());
  computer.memory_limit = computer.programs.memory_max = *memory_limit;
  BlockLeaveSignals();
  const absl::StatusOr<std::string> chosen =
      ChooseDevice(device, DeviceFor::kTraining, &computer.note, cluster->task->index);
  if (!chosen.ok()) return refuse(chosen.status());
  computer.use = {*chosen, /*automatic=*/device == "auto", static_cast<int>(threads),
                  cluster->task->index};
  const std::string task = computer.programs.task = cluster->task->ToString();
  computer.programs.running = std::make_shared<RunningChildren>();
  computer.programs.log = [log = std::make_shared<Logger>(task)](const std::string& line) {
    log->Info("program: {}", line);
  };
  const size_t peers = cluster->ps.size() + 1;
  if (options.coordinator.empty()) options.coordinator = cluster->coordinator;
  GrpcOptions grpc;
  const absl::Status safe = Secure(shared, *cluster->task, options.coordinator, grpc);
  if (!safe.ok()) return Complain(argv[0], safe, SecurityExitCode(safe));
  if (cluster->task->role == Role::kEvaluator) {
    if (shared.dir.empty()) return refuse(absl::InvalidArgumentError(task + " needs --dir DIR"));
    if (const auto code = SetUpOrExit(shared, *cluster->task, peers, argv[0])) return *code;
    const std::string dir = AbsolutePath(shared.dir);
    return RunEvaluator(
        {.task = task, .dir = dir, .host = HostName(), .coordinator = options.coordinator}, shared,
        grpc, computer, argv[0]);
  }
  if (cluster->task->role != Role::kWorker) {
    return refuse(
        absl::InvalidArgumentError("needs a task worker:INDEX or evaluator:INDEX, not " + task));
  }
  options.device = *chosen;
  options.task = task;
  options.dir = shared.dir.empty() ? "" : AbsolutePath(shared.dir);
  options.host = HostName();
  if (options.coordinator.empty()) {
    return refuse(
        NoAddress(*cluster, "the coordinator", "cluster.chief", "give --coordinator ADDRESS"));
  }
  if (const auto code = SetUpOrExit(shared, *cluster->task, peers, argv[0])) return *code;
  return RunWorker(std::move(options), shared, grpc, computer, *cluster, argv[0]);
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) {
  // OpenMP's threads would spin while they wait, on cores that other daemons need; it reads this
  // when it is loaded, before main.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    std::error_code none;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", none).string();
    if (!none) execv(self.c_str(), argv);
  }
  paracord::RunProgram(argc, argv, paracord::Main);
}
