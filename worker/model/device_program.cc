#include "worker/model/device_program.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/model/replicas.h"

namespace paracord {
namespace {

// The error says of which device it is.
absl::Status Unusable(const std::string& device, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(device, " cannot be used: ", why.message()));
}

absl::StatusOr<DeviceProgram> BuildOn(const std::string& device, int threads, const Job& job,
                                      const Batch& schema, const MakeOpsFn& make) {
  if (device == kAllGpus) {
    absl::StatusOr<std::vector<Replica>> replicas = MakeAllGpus();
    if (!replicas.ok()) return Unusable(device, replicas.status());
    ASSIGN_OR_RETURN(auto program, BuildReplicas(job, schema, *std::move(replicas)));
    return DeviceProgram{std::move(program), device, ""};
  }
  absl::StatusOr<std::unique_ptr<Ops>> ops = make(device, threads);
  if (!ops.ok()) return Unusable(device, ops.status());
  const bool in_vain = job.precision == "bf16" && !(*ops)->has_bfloat16();
  ASSIGN_OR_RETURN(auto program, BuildKerasProgram(job, schema, *std::move(ops)));
  return DeviceProgram{std::move(program), device,
                       in_vain
                           ? "precision bf16 is computed as float32: only a processor with AMX, "
                             "or a GPU of compute capability 8.0 or later, is faster with it"
                           : ""};
}

}  // namespace

absl::StatusOr<DeviceProgram> BuildOnDevice(const Job& job, const Batch& schema,
                                            const DeviceUse& use, const MakeOpsFn& make) {
  auto built = BuildOn(use.device, use.threads, job, schema, make);
  if (built.ok() || !use.automatic || use.device == "cpu") return built;
  // Where it does not compute there, either, that is what is wrong.
  ASSIGN_OR_RETURN(DeviceProgram instead, BuildOn("cpu", use.threads, job, schema, make));
  instead.note = absl::StrCat("computing on the CPU: ", built.status().message());
  return instead;
}

}  // namespace paracord
