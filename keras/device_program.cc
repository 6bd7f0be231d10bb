#include "keras/device_program.h"

#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "keras/build.h"
#include "keras/lane_group.h"
#include "keras/replicas.h"
#include "keras/stage_program.h"

namespace paracord {
namespace {

// Adds the device's name to an error.
absl::Status Unusable(const std::string& device, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(device, " cannot be used: ", why.message()));
}

absl::StatusOr<std::unique_ptr<GradientProgram>> BuildOn(const std::string& device, int threads,
                                                         const Job& job, const Batch& schema,
                                                         const MakeOpsFn& make) {
  if (device == kAllGpus) {
    absl::StatusOr<std::vector<std::string>> all = DevicesOf(device);
    if (!all.ok()) return Unusable(device, all.status());
    absl::StatusOr<std::vector<Replica>> replicas = MakeGpuGroup(*all);
    if (!replicas.ok()) return Unusable(device, replicas.status());
    return BuildReplicas(job, schema, *std::move(replicas));
  }
  absl::StatusOr<std::unique_ptr<Ops>> ops = make(device, threads);
  if (!ops.ok()) return Unusable(device, ops.status());
  return BuildKerasProgram(job, schema, *std::move(ops));
}

std::string StageDevicesAdvice(uint32_t stages) {
  return absl::StrCat(": give --device cpu:", stages, ", or name ", stages, " GPUs as cuda:N,M");
}

absl::Status CheckStageCount(uint32_t stages, const std::string& device, size_t devices) {
  if (devices == stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "stages: the model is cut into ", stages, ", each on a device of its own, and --device ",
      device, " is ", devices, StageDevicesAdvice(stages)));
}

}  // namespace

absl::Status CheckStageDevices(const Job& job, const std::string& device) {
  const uint32_t stages = job.guarantees.stages.count;
  if (stages == 1 || device == kAllGpus) return absl::OkStatus();
  if (device.starts_with("pjrt:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("stages: are computed by devices of the processor or GPUs, and --device is ",
                     device, StageDevicesAdvice(stages)));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, DevicesOf(device));
  return CheckStageCount(stages, device, devices.size());
}

absl::StatusOr<DeviceProgram> BuildStagesOnDevices(const Job& job, const Batch& schema,
                                                   const DeviceUse& use, const MakeOpsFn& make) {
  RETURN_IF_ERROR(CheckStageDevices(job, use.device));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, DevicesOf(use.device));
  RETURN_IF_ERROR(CheckStageCount(job.guarantees.stages.count, use.device, names.size()));
  std::vector<StageDevice> devices;
  for (const std::string& name : names) {
    absl::StatusOr<std::unique_ptr<Ops>> ops = make(name, use.threads);
    if (!ops.ok()) return Unusable(name, ops.status());
    devices.push_back({name, *std::move(ops)});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<GradientProgram> program,
                   BuildStages(job, schema, std::move(devices)));
  return DeviceProgram{std::move(program), use.device, ""};
}

absl::StatusOr<LanesOnDevices> BuildLanesOnDevices(const Job& job, const Batch& schema,
                                                   const std::vector<std::string>& devices,
                                                   const MakeOpsFn& make,
                                                   const MakeGroupFn& make_group) {
  const auto adding = static_cast<int64_t>(std::bit_floor(devices.size()));
  const std::vector<std::string> names(devices.begin(), devices.begin() + adding);
  absl::StatusOr<std::vector<Replica>> group = make_group(names);
  if (!group.ok()) {
    return absl::Status(group.status().code(),
                        absl::StrCat("cross_device_ops: \"nccl\" cannot add up the gradients of ",
                                     absl::StrJoin(names, ", "), ": ", group.status().message()));
  }
  ASSIGN_OR_RETURN(LanePrograms together, BuildLanes(job, schema, *std::move(group), names));
  LanesOnDevices lanes;
  lanes.sum = std::move(together.sum);
  for (size_t i = 0; i < names.size(); ++i) {
    lanes.programs.push_back({std::move(together.programs[i]), names[i], ""});
  }
  for (size_t i = names.size(); i < devices.size(); ++i) {
    ASSIGN_OR_RETURN(DeviceProgram alone, BuildOnDevice(job, schema, {.device = devices[i]}, make));
    lanes.programs.push_back(std::move(alone));
  }
  return lanes;
}

absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make) {
  auto program = BuildOn(use.device, use.threads, job, schema, make);
  if (program.ok()) return DeviceProgram{*std::move(program), use.device, ""};
  if (!use.automatic || use.device == "cpu") return program.status();
  // If the model fails on the CPU as well, the CPU's error is the one to report.
  auto instead = BuildOn("cpu", use.threads, job, schema, make);
  RETURN_IF_ERROR(instead.status());
  return DeviceProgram{*std::move(instead), "cpu",
                       absl::StrCat("computing on the CPU: ", program.status().message())};
}

}  // namespace paracord
