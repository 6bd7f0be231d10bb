#include "worker/checkpoint_scorer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "nlohmann/json.hpp"
#include "worker/score_variables.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr char kEvaluations[] = "/evaluations.jsonl";

// Marks an error of the model or the data, after which trying again does not help, unless the
// storage of the data did not answer.
absl::Status Unfit(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::IsUnavailable(status) ? absl::UnknownError(status.message())
                                     : absl::InvalidArgumentError(status.message());
}

// Marks an error of a checkpoint, for which neither the job nor the results' file is at fault.
absl::Status OfCheckpoint(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return absl::DataLossError(status.message());
  return absl::IsUnavailable(status) ? absl::UnknownError(status.message()) : status;
}

}  // namespace

CheckpointScorer::CheckpointScorer(Files& files, std::string dir, OpenWorkloadFn open)
    : files_(files), dir_(std::move(dir)), open_(std::move(open)) {}

std::string CheckpointScorer::PathOf(const CheckpointName& name) const {
  return absl::StrCat(CheckpointsDirectory(dir_), "/", name.ToString());
}

void CheckpointScorer::Say(std::string what) {
  if (said_now_.insert(what).second && !said_before_.contains(what)) {
    look_.said.push_back(std::move(what));
  }
}

absl::Status CheckpointScorer::ReadScored() {
  if (scored_known_) return absl::OkStatus();
  absl::StatusOr<std::string> text = files_.ReadWhole(dir_ + kEvaluations);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  if (text.ok()) evaluations_ = *std::move(text);
  for (const auto line : absl::StrSplit(evaluations_, '\n', absl::SkipEmpty())) {
    const json entry = JsonOf(std::string(line));
    const bool ours = entry.is_object() && entry.contains("run_id") &&
                      entry.contains("checkpoint") && entry["run_id"].is_string() &&
                      entry["checkpoint"].is_string();
    if (!ours) {
      Say(absl::StrCat(dir_, kEvaluations,
                       " holds a line that is no evaluation: ", line.substr(0, 80)));
      continue;
    }
    scored_.emplace(entry["run_id"].get<std::string>(), entry["checkpoint"].get<std::string>());
  }
  scored_known_ = true;
  return absl::OkStatus();
}

absl::Status CheckpointScorer::Prepare(const Manifest& manifest) {
  if (workload_.has_value() && manifest.job_json == job_json_) return absl::OkStatus();
  workload_.reset();
  const absl::StatusOr<Job> job = ParseJob(manifest.job_json);
  if (!job.ok()) return Unfit(job.status());
  absl::StatusOr<Workload> workload = open_(*job);
  if (!workload.ok()) return Unfit(workload.status());
  workload_ = *std::move(workload);
  job_json_ = manifest.job_json;
  batch_ = job->batch;
  return absl::OkStatus();
}

absl::Status CheckpointScorer::Score(const Manifest& manifest, int64_t unix_ms,
                                     const std::atomic<bool>& stop) {
  VariableIds ids;
  const absl::StatusOr<std::vector<std::vector<float>>> values =
      ReadVariables(files_, PathOf(manifest.name), manifest, &ids, *damage_);
  if (!values.ok()) return OfCheckpoint(values.status());
  RETURN_IF_ERROR(Prepare(manifest));
  absl::StatusOr<paracord::Score> score = ScoreVariables(
      *workload_, {manifest.variables, *values, ids}, manifest.plan.seed(), batch_, stop);
  if (absl::IsCancelled(score.status())) return score.status();
  RETURN_IF_ERROR(Unfit(score.status()));
  const std::string name = manifest.name.ToString();
  const json entry = {{"checkpoint", name},
                      {"run_id", manifest.run_id},
                      {"step", manifest.name.step},
                      {"examples", score->examples},
                      {"metrics", score->MetricsToJson()},
                      {"healthy", manifest.healthy()},
                      {"complete", manifest.complete},
                      {"unix_ms", unix_ms}};
  std::string text = evaluations_;
  if (!text.empty() && text.back() != '\n') text += '\n';
  absl::StrAppend(&text, TextOf(entry), "\n");
  const absl::Status written = files_.WriteAtomic(dir_ + kEvaluations, text);
  if (!written.ok()) return absl::UnavailableError(written.message());
  evaluations_ = std::move(text);
  scored_.emplace(manifest.run_id, name);
  Say(absl::StrCat("scored ", name, ": ", TextOf(entry["metrics"])));
  return absl::OkStatus();
}

CheckpointScorer::Fate CheckpointScorer::TryOne(const CheckpointName& name, int64_t unix_ms,
                                                const std::atomic<bool>& stop, bool& complete) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(files_, PathOf(name));
  complete = manifest.ok() && manifest->complete;
  if (manifest.ok() && scored_.contains({manifest->run_id, name.ToString()})) return Fate::kKnown;
  const absl::Status done =
      manifest.ok() ? Score(*manifest, unix_ms, stop) : OfCheckpoint(manifest.status());
  if (done.ok()) return Fate::kScored;
  if (absl::IsCancelled(done)) return Fate::kStopped;
  if (absl::IsInvalidArgument(done)) {
    Leave(ExitCode::kConfiguration, Text(done));
    return Fate::kFailed;
  }
  if (absl::IsUnavailable(done)) {
    Say("cannot write the result: " + Text(done));
    return Fate::kFailed;
  }
  const bool damaged = SaysDamaged(done);
  Say(absl::StrCat("checkpoint ", name.ToString(),
                   absl::IsNotFound(done) ? " is gone or not whole: "
                   : damaged              ? " is refused: "
                                          : " cannot be scored now: ",
                   Text(done)));
  return damaged ? Fate::kUnusable : Fate::kUnreadable;
}

void CheckpointScorer::LeaveIfOver(bool newest_complete, Fate newest) {
  const absl::StatusOr<std::string> text = files_.ReadWhole(dir_ + "/summary.json");
  if (!text.ok()) return;
  const json summary = JsonOf(*text);
  const auto status = summary.is_object() ? summary.find("status") : summary.end();
  if (status == summary.end()) return;
  if (*status == "failed") return Leave(ExitCode::kFailed, "the job has failed");
  if (*status != "done") return;  // stopped jobs may go on
  if (newest_complete && newest == Fate::kKnown) {
    Leave(ExitCode::kDone, "the job is done and its final checkpoint scored");
  } else if (newest == Fate::kUnusable) {
    Leave(ExitCode::kNoCheckpoint, "the job is done, but its newest checkpoint cannot be scored");
  }
}

CheckpointScorer::Look CheckpointScorer::LookOnce(int64_t unix_ms, const std::atomic<bool>& stop) {
  look_ = Look();
  damage_.emplace();
  said_before_ = std::exchange(said_now_, {});
  const absl::Status known = ReadScored();
  const absl::StatusOr<std::vector<CheckpointName>> names =
      ListCheckpoints(files_, CheckpointsDirectory(dir_));
  if (!known.ok() || !names.ok()) {
    Say(Text(known.ok() ? names.status() : known));
    return std::exchange(look_, Look());
  }
  if (names->empty()) Say("waits for a checkpoint in " + CheckpointsDirectory(dir_));
  bool newest_complete = false;
  Fate newest = Fate::kFailed;
  Fate fate = Fate::kFailed;
  for (size_t i = 0; i < names->size(); ++i) {
    bool complete = false;
    fate = TryOne((*names)[i], unix_ms, stop, complete);
    if (i == 0) {
      unreadable_ = fate == Fate::kUnreadable ? unreadable_ + 1 : 0;
      newest = unreadable_ > kUnreadableMax ? Fate::kUnusable : fate;
      newest_complete = complete;
    }
    if (fate == Fate::kUnusable || fate == Fate::kUnreadable) continue;
    look_.scored = fate == Fate::kScored;
    for (size_t older = i + 1; look_.scored && older < names->size(); ++older) {
      const absl::StatusOr<Manifest> manifest = ReadManifest(files_, PathOf((*names)[older]));
      if (manifest.ok() && scored_.contains({manifest->run_id, manifest->name.ToString()})) break;
      Say(absl::StrCat("skips ", (*names)[older].ToString(), ", which is older"));
    }
    break;
  }
  const bool idle = fate == Fate::kKnown || fate == Fate::kUnusable || fate == Fate::kUnreadable ||
                    names->empty();
  if (idle) LeaveIfOver(newest_complete, newest);
  return std::exchange(look_, Look());
}

}  // namespace paracord
