#include "node/compute_main.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "data/kept_bytes.h"
#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/device.h"
#include "worker/device_watch.h"
#include "worker/own_memory.h"

namespace paracord {
namespace {

// The threads of each of `devices` devices: as many as the job wants of each worker, up to all
// threads here, or else an equal share.
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

// The devices that compute lanes of the job, stages of its model, or whole batches if there is a
// single device. All GPUs together may also compute a part of each batch.
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

bool AddsByNccl(const Job& job) { return job.guarantees.cross_device_ops == CrossDeviceOps::kNccl; }

absl::Status CheckCrossDeviceOps(const Job& job, const std::vector<std::string>& devices) {
  if (!AddsByNccl(job)) return absl::OkStatus();
  for (const std::string& device : devices) {
    if (device.starts_with("cuda:")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cross_device_ops: \"nccl\" adds up lanes of CUDA devices, and this worker computes on ",
        device, " (--device): give \"hierarchical_copy\""));
  }
  if (!IsProgram(job.model)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "cross_device_ops: \"nccl\" adds up lanes of Keras models, and the job's model is a program, "
      "which keeps its devices to itself: give \"hierarchical_copy\"");
}

// Logs who adds up the gradients of which devices.
void SayWhoAddsUp(const std::vector<std::string>& devices, const DeviceSum& sum) {
  const auto adding = devices.begin() + static_cast<int64_t>(sum.devices());
  std::string rest;
  if (adding != devices.end()) {
    rest =
        absl::StrCat(", and the processor those of ", absl::StrJoin(adding, devices.end(), ", "));
  }
  Logger("device").Info("NCCL adds up the gradients of {}{}",
                        absl::StrJoin(devices.begin(), adding, ", "), rest);
}

// Names the hardware and libraries on which the bits of the devices' results depend.
std::string NumericsFor(const Job& job, const Computer& computer) {
  const absl::StatusOr<std::vector<std::string>> devices = DevicesFor(job, computer.use.device);
  if (!devices.ok() || IsProgram(job.model)) return "";
  return NumericsOf(devices->front(), ThreadsFor(job, computer.use.threads, devices->size()));
}

// Builds the job's program on each of its devices.
absl::StatusOr<LanesOnDevices> BuildOnDevices(const Job& job, const Batch& schema,
                                              const Computer& computer, bool trains) {
  LanesOnDevices lanes;
  std::vector<DeviceProgram>& programs = lanes.programs;
  DeviceUse use = computer.use;
  if (!trains) {
    if (use.device.starts_with("cpu:")) use.device = "cpu";  // a single device evaluates
    ASSIGN_OR_RETURN(DeviceProgram one, BuildJobProgram(job, schema, use, computer.programs));
    programs.push_back(std::move(one));
    return lanes;
  }
  RETURN_IF_ERROR(CheckStageDevices(job, use.device));
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, DevicesFor(job, use.device));
  const bool stages = job.guarantees.stages.count > 1;
  if (devices.size() > 1 && !stages && !job.guarantees.rounds()) {
    return RefuseSeveral(computer.use.device);
  }
  RETURN_IF_ERROR(CheckCrossDeviceOps(job, devices));
  WarnOfThreads(job, use.threads);
  use.threads = ThreadsFor(job, use.threads, devices.size());
  if (stages) {
    ASSIGN_OR_RETURN(DeviceProgram one, BuildStagesOnDevices(job, schema, use));
    programs.push_back(std::move(one));
    return lanes;
  }
  if (AddsByNccl(job) && devices.size() > 1) {
    ASSIGN_OR_RETURN(lanes, BuildLanesOnDevices(job, schema, devices));
    SayWhoAddsUp(devices, *lanes.sum);
    return lanes;
  }
  for (const std::string& device : devices) {
    use.device = device;
    // A plug-in may have several devices by one name.
    ASSIGN_OR_RETURN(std::vector<DeviceProgram> built,
                     BuildJobPrograms(job, schema, use, computer.programs));
    for (DeviceProgram& each : built) programs.push_back(std::move(each));
  }
  if (programs.size() > 1 && !job.guarantees.rounds()) return RefuseSeveral(computer.use.device);
  return lanes;
}

// What a worker holds while its devices compute lanes side by side.
OwnLoad LoadOfLanes(const Job& job, const Batch& schema, size_t devices) {
  OwnLoad load{.devices = devices, .batch_bytes = BatchBytes(schema, job.batch)};
  if (!IsProgram(job.model)) load.rows = Declare(job, MakeCpuOps(/*threads=*/1)).rows;
  return load;
}

}  // namespace

ComputerFlags::ComputerFlags() : threads(std::max(1u, std::thread::hardware_concurrency())) {}

void ComputerFlags::AddTo(Flags& flags) {
  flags.String("device", "DEVICE",
               "auto, cpu, cuda:N, or pjrt:PATH[:N], a plug-in (and its device) for programs of "
               "StableHLO; in a job with rounds several devices may each compute lanes: cpu:N, "
               "cuda:N,M, pjrt:PATH:N,M, pjrt:PATH:all, or cuda:all, which has each GPU compute a "
               "part of every batch otherwise; a job with stages takes as many devices of "
               "cpu:N, cuda:N,M or cuda:all",
               &device);
  flags.Integer("threads", "N", "threads that compute", 1, 1024, &threads);
  flags.Switch("allow-programs",
               "run the command of a job whose model is a program, and load from --dir what a "
               "plug-in has compiled: code of whoever writes the job",
               &programs_allowed);
}

absl::StatusOr<Computer> ChooseComputer(const ComputerFlags& flags, const Task& task,
                                        uint64_t memory_limit) {
  Computer computer;
  ASSIGN_OR_RETURN(computer.device,
                   ChooseDevice(flags.device, DeviceFor::kTraining, &computer.note, task.index));
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, DevicesOf(computer.device));
  computer.devices = static_cast<uint32_t>(devices.size());
  computer.use = {computer.device, /*automatic=*/flags.device == "auto",
                  static_cast<int>(flags.threads), task.index};
  computer.memory_limit = computer.programs.memory_max = memory_limit;
  computer.programs.allowed = flags.programs_allowed;
  computer.programs.task = task.ToString();
  computer.programs.running = std::make_shared<RunningChildren>();
  computer.programs.log = [log = std::make_shared<Logger>(task.ToString())](
                              const std::string& line) { log->Info("program: {}", line); };
  return computer;
}

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
    std::shared_ptr<DeviceSum> sum;
    OwnLoad load{.devices = trains ? size_t{1} : 0};
    const auto build =
        [&](const Job& of,
            const Batch& schema) -> absl::StatusOr<std::unique_ptr<GradientProgram>> {
      ASSIGN_OR_RETURN(LanesOnDevices lanes, BuildOnDevices(of, schema, computer, trains));
      std::vector<DeviceProgram>& built = lanes.programs;
      sum = std::move(lanes.sum);
      if (!built[0].note.empty()) Logger("device").Warn("{}", built[0].note);
      device = built.size() > 1 ? computer.use.device : built[0].device;
      for (size_t i = 1; i < built.size(); ++i) {
        others.push_back(WatchDevice(std::move(built[i].program), lost));
      }
      if (!others.empty()) load = LoadOfLanes(of, schema, built.size());
      return std::move(built[0].program);
    };
    const uint64_t limit = computer.memory_limit;
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
    load.memory_parts = computer.memory_parts;
    RETURN_IF_ERROR(CheckOwnMemory(workload.program->variables(), load, limit));
    workload.device = device;
    if (trains) workload.numerics = NumericsFor(job, computer);
    workload.program = WatchDevice(std::move(workload.program), lost);
    if (!others.empty()) {
      workload.devices = std::make_unique<LaneDevices>(
          *workload.program, std::move(others), job.guarantees.cross_device_ops, std::move(sum));
    }
    return workload;
  };
}

}  // namespace paracord
