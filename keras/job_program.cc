#include "keras/job_program.h"

#include <utility>

#include "common/status_macros.h"
#include "config/program_spec.h"
#include "keras/scored_program.h"

namespace paracord {

absl::StatusOr<DeviceProgram> BuildJobProgram(const Job& job, const Batch& schema,
                                              const DeviceUse& use, const ProgramUse& programs) {
  if (!IsProgram(job.model)) return BuildOnDevice(job, schema, use);
  ProgramUse own = programs;
  own.threads = use.threads;
  // A framework may find a GPU that our own engine cannot use.
  own.device = use.automatic && use.device == "cpu" ? "auto" : use.device;
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessProgram> process,
                   ProcessProgram::Start(job, schema, own));
  std::vector<ProgramOutput> outputs = process->outputs();
  ASSIGN_OR_RETURN(std::unique_ptr<GradientProgram> scored,
                   MakeScoredProgram(job, schema, std::move(process), std::move(outputs)));
  return DeviceProgram{std::move(scored), own.device, ""};
}

}  // namespace paracord
