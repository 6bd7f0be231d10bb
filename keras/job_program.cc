#include "keras/job_program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "keras/scored_program.h"
#include "program/pjrt_program.h"

namespace paracord {

namespace {

// Computes the job's own metrics from the predictions of `program`.
template <class Program>
absl::StatusOr<DeviceProgram> Scored(const Job& job, const Batch& schema,
                                     std::unique_ptr<Program> program, const std::string& device) {
  std::vector<ProgramOutput> outputs = program->outputs();
  ASSIGN_OR_RETURN(std::unique_ptr<GradientProgram> scored,
                   MakeScoredProgram(job, schema, std::move(program), std::move(outputs)));
  return DeviceProgram{std::move(scored), device, ""};
}

PjrtUse PluginUse(const DeviceUse& use, const ProgramUse& programs) {
  return {use.device, use.automatic, std::max(use.threads, 1), use.turn, programs.memory_max};
}

}  // namespace

absl::StatusOr<std::vector<DeviceProgram>> BuildJobPrograms(const Job& job, const Batch& schema,
                                                            const DeviceUse& use,
                                                            const ProgramUse& programs) {
  std::vector<DeviceProgram> built;
  if (!IsStableHlo(job.model) || !programs.compiles) {
    ASSIGN_OR_RETURN(DeviceProgram one, BuildJobProgram(job, schema, use, programs));
    built.push_back(std::move(one));
    return built;
  }
  ASSIGN_OR_RETURN(
      std::vector<std::unique_ptr<PjrtProgram>> each,
      PjrtProgram::MakeOnEach(job, schema, PluginUse(use, programs), programs.compiled));
  for (std::unique_ptr<PjrtProgram>& program : each) {
    const std::string device = program->device();
    ASSIGN_OR_RETURN(DeviceProgram one, Scored(job, schema, std::move(program), device));
    built.push_back(std::move(one));
  }
  return built;
}

absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs) {
  if (IsStableHlo(job.model)) {
    if (!programs.compiles) {
      ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> checked,
                       PjrtProgram::Check(job, schema, programs.memory_max));
      return Scored(job, schema, std::move(checked), "");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> program,
                     PjrtProgram::Make(job, schema, PluginUse(use, programs), programs.compiled));
    const std::string device = program->device();
    return Scored(job, schema, std::move(program), device);
  }
  if (IsPjrtDevice(use.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", use.device,
                     ": a PJRT plug-in computes programs of StableHLO alone, and the "
                     "job's model is none: paracord.keras.export makes one of it"));
  }
  if (!IsProgram(job.model)) return BuildOnDevice(job, schema, use);
  ProgramUse own = programs;
  own.threads = use.threads;
  // A framework may support a GPU that our own engine does not.
  own.device = use.automatic && use.device == "cpu" ? "auto" : use.device;
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessProgram> process,
                   ProcessProgram::Start(job, schema, own));
  return Scored(job, schema, std::move(process), own.device);
}

}  // namespace paracord
