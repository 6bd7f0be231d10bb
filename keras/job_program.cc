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

// The job's own metrics are measured of what `program` predicts.
template <class Program>
absl::StatusOr<DeviceProgram> Scored(const Job& job, const Batch& schema,
                                     std::unique_ptr<Program> program, const std::string& device) {
  std::vector<ProgramOutput> outputs = program->outputs();
  ASSIGN_OR_RETURN(std::unique_ptr<GradientProgram> scored,
                   MakeScoredProgram(job, schema, std::move(program), std::move(outputs)));
  return DeviceProgram{std::move(scored), device, ""};
}

}  // namespace

absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs) {
  if (IsStableHlo(job.model)) {
    if (!programs.compiles) {
      ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> checked,
                       PjrtProgram::Check(job, schema, programs.memory_max));
      return Scored(job, schema, std::move(checked), "");
    }
    const PjrtUse plugin = {use.device, use.automatic, std::max(use.threads, 1), use.turn,
                            programs.memory_max};
    ASSIGN_OR_RETURN(std::unique_ptr<PjrtProgram> program,
                     PjrtProgram::Make(job, schema, plugin, programs.compiled));
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
  // A framework may find a GPU that our own engine cannot use.
  own.device = use.automatic && use.device == "cpu" ? "auto" : use.device;
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessProgram> process,
                   ProcessProgram::Start(job, schema, own));
  return Scored(job, schema, std::move(process), own.device);
}

}  // namespace paracord
