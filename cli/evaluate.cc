// paracord evaluate: the test metrics of a checkpoint, without a cluster.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "cli/own_programs.h"
#include "cli/user_job.h"
#include "common/json_text.h"
#include "common/one_line.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_settings.h"
#include "data/kept_bytes.h"
#include "keras/job_program.h"
#include "nlohmann/json.hpp"
#include "objects/all_files.h"
#include "program/workload.h"
#include "tensor/device.h"
#include "worker/score_variables.h"

namespace paracord {
namespace {

constexpr size_t kOthersBytesMax = 500;

struct EvaluateFlags {
  std::string job;
  std::vector<std::string> set;
  std::string dir;
  std::string device = "auto";
  std::string memory_limit;
  std::optional<int64_t> step;
  bool json = false;
};

void Print(const Manifest& manifest, const Score& score, bool as_json, std::ostream& out) {
  if (as_json) {
    out << TextOf(nlohmann::json({{"checkpoint", manifest.name.ToString()},
                                  {"step", manifest.name.step},
                                  {"examples", score.examples},
                                  {"metrics", score.MetricsToJson()}}))
        << "\n";
    return;
  }
  out << "checkpoint " << manifest.name.ToString() << " (" << PositionText(manifest) << "), "
      << score.examples << " test records\n";
  for (const auto& [name, value] : score.metrics) out << "test " << name << ": " << value << "\n";
}

// Warns if the job's training data differ from the checkpoint's: columns and vocabulary define the
// numbers that the model gets. Test data may differ.
void WarnOfOtherData(const Job& job, const std::string& trained_with, std::ostream& err) {
  const absl::StatusOr<Job> before = ParseJob(trained_with);
  if (!before.ok()) return;  // written by another version
  std::string others;
  for (const std::string& line : JobDifferences(*before, job)) {
    if (!line.starts_with("data.train")) continue;
    absl::StrAppend(&others, others.empty() ? "" : "; ", line);
  }
  if (others.empty()) return;
  err << "paracord evaluate: warning: data.train is not what the checkpoint was trained with ("
      << OneLine(others, kOthersBytesMax)
      << "): with another vocabulary or other columns the metrics mean nothing\n";
}

int Run(EvaluateFlags own, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const absl::Status& status, ExitCode code) {
    return Fail("evaluate", status.message(), code, err);
  };
  const absl::StatusOr<std::string> device =
      ChooseDevice(own.device, DeviceFor::kOneModel, nullptr);
  if (!device.ok()) return fail(device.status(), ExitCode::kConfiguration);
  AllFiles files;
  const absl::StatusOr<Job> job = ReadUserJob(files, AbsolutePath(own.job), own.set);
  if (!job.ok()) return fail(job.status(), ExitCode::kConfiguration);
  own.dir = AbsolutePath(own.dir);
  const absl::StatusOr<uint64_t> values_max = ValuesBytesMax(own.memory_limit);
  if (!values_max.ok()) return fail(values_max.status(), ExitCode::kConfiguration);
  const absl::StatusOr<ChosenCheckpoint> chosen =
      ChooseCheckpoint(files, own.dir, own.step, err, *values_max);
  if (!chosen.ok()) return fail(chosen.status(), ExitCodeOfChoice(chosen.status()));
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const auto build = [&](const Job& of,
                         const Batch& schema) -> absl::StatusOr<std::unique_ptr<GradientProgram>> {
    ASSIGN_OR_RETURN(
        DeviceProgram built,
        BuildJobProgram(of, schema, {*device, own.device == "auto", static_cast<int>(threads)},
                        OwnPrograms("evaluate")));
    if (!built.note.empty()) err << "paracord evaluate: " << built.note << "\n";
    return std::move(built.program);
  };
  SystemRandom random;
  if (!job->test.has_value()) {
    return fail(absl::InvalidArgumentError("the job has no test data (key data.test)"),
                ExitCode::kConfiguration);
  }
  absl::StatusOr<Workload> workload =
      OpenSource(files, *job, *job->test, build, PlaceIn(own.dir, random));
  if (!workload.ok()) return fail(workload.status(), ExitCode::kConfiguration);
  WarnOfOtherData(*job, chosen->manifest.job_json, err);
  const absl::Status same = CheckShapes(workload->program->variables(), chosen->manifest.variables);
  if (!same.ok()) return fail(same, ExitCode::kConfiguration);
  const std::atomic<bool> stop = false;
  const absl::StatusOr<Score> score =
      ScoreVariables(*workload, chosen->stored(), chosen->manifest.plan.seed(), job->batch, stop);
  if (!score.ok()) return fail(score.status(), ExitCode::kConfiguration);
  Print(chosen->manifest, *score, own.json, out);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int RunEvaluate(Args args, std::ostream& out, std::ostream& err) {
  EvaluateFlags own;
  Flags flags("paracord evaluate", "Computes the test metrics of a checkpoint, without a cluster.");
  flags.Positional("JOB", "the job file, which says what the test data are", &own.job);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &own.set);
  flags.String("dir", "DIR", "the job's directory, which holds the checkpoints", &own.dir);
  flags.Integer("step", "N", "the checkpoint of this step; default: the newest healthy one", 0,
                INT64_MAX, &own.step);
  flags.String("device", "DEVICE", "what to compute on: auto, cpu, cuda:N or pjrt:PATH",
               &own.device);
  flags.String("memory-limit", "BYTES", kValuesLimitHelp, &own.memory_limit);
  flags.Switch("json", "one JSON object instead of text", &own.json);
  const auto code = flags.ParseOrExit(args, "paracord evaluate", out, err);
  if (code.has_value()) return *code;
  if (own.dir.empty()) return Fail("evaluate", "needs --dir DIR", ExitCode::kConfiguration, err);
  return Run(std::move(own), out, err);
}

}  // namespace paracord
