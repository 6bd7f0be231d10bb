#include "coordinator/dir_start.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "coordinator/commit.h"
#include "coordinator/core/job_record.h"
#include "coordinator/generations.h"
#include "coordinator/saved_job.h"
#include "proto/protocol.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// Returns how many batches a job trains in all if no early stop ends it.
absl::StatusOr<uint64_t> BatchesOf(const Job& job, const DataPlan& plan) {
  if (job.steps.has_value()) return UpToEndOfRound(plan, *job.steps);
  RETURN_IF_ERROR(CheckEpochs(plan, job.epochs));
  return job.epochs * BatchesPerEpoch(plan);
}

// Returns the batches of the partition that is furthest ahead: the job cannot be shorter. Rejected
// batches count.
uint64_t MostEntered(const Manifest& manifest) {
  uint64_t most = 0;
  for (const ManifestPartition& partition : manifest.partitions) {
    most = std::max(most, partition.applied + partition.rejected);
  }
  return most;
}

}  // namespace

DirStart::DirStart(Files& files, std::string dir, Job job, std::string boot_id,
                   std::vector<std::string> accepted, bool keeps_job)
    : files_(files),
      dir_(std::move(dir)),
      job_(std::move(job)),
      boot_id_(std::move(boot_id)),
      accepted_(std::move(accepted)),
      keeps_job_(keeps_job) {}

absl::Status DirStart::KeepJob(const std::string& before, const std::string& why) {
  if (!keeps_job_) return absl::InvalidArgumentError(why);
  ASSIGN_OR_RETURN(Job kept, ParseJob(before));
  std::vector<std::string> lines = JobDifferences(kept, job_);
  if (!lines.empty()) untaken_ = std::move(lines);
  job_ = std::move(kept);
  return absl::OkStatus();
}

absl::StatusOr<FoundInDir> DirStart::LookInDir() {
  FoundInDir found;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states, NumbersOf(files_, dir_, kStatePrefix));
  if (!states.empty()) {
    const std::string path = Path(absl::StrCat(kStatePrefix, states.back()));
    ASSIGN_OR_RETURN(const std::string text, files_.ReadWhole(path));
    absl::StatusOr<JobState> state = ParseJobState(text, path);
    // A state of another version is sound, and would be lost if the job went on without it.
    if (absl::IsUnimplemented(state.status())) return state.status();
    if (state.ok()) {
      found.job_state = *std::move(state);
    } else {
      found.damaged_state = std::string(state.status().message());
    }
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                   ListCheckpoints(files_, CheckpointsDirectory(dir_)));
  absl::Status unread;
  for (const CheckpointName& name : checkpoints) {
    absl::StatusOr<Manifest> manifest =
        ReadManifest(files_, CheckpointsDirectory(dir_) + "/" + name.ToString());
    if (manifest.ok()) {
      found.manifests.push_back(*std::move(manifest));
    } else {
      found.unreadable.emplace(name.ToString(), manifest.status().message());
      if (!SaysDamaged(manifest.status())) unread = manifest.status();
    }
  }
  // The storage may have recovered when the next start reads DIR.
  if (found.manifests.empty()) RETURN_IF_ERROR(unread);
  return found;
}

absl::StatusOr<DirStart::Verdict> DirStart::CheckFound(FoundInDir& found) {
  std::string before;
  DataPlan plan;
  if (found.job_state.has_value()) {
    before = found.job_state->job_json;
    plan = found.job_state->plan;
  } else if (!found.manifests.empty()) {
    before = found.manifests.front().job_json;
    plan = found.manifests.front().plan;
  }
  if (!before.empty()) {
    ASSIGN_OR_RETURN(Job job_before, ParseJob(before));
    const std::optional<StopWhen> end_before = job_before.stop_when;
    const absl::Status same = CheckGoesOn({std::move(job_before), plan}, job_, accepted_);
    if (!same.ok()) RETURN_IF_ERROR(KeepJob(before, std::string(same.message())));
    const bool same_end = end_before == job_.stop_when;
    RETURN_IF_ERROR(BatchesOf(job_, plan).status());
    if (!same_end && found.job_state.has_value()) found.job_state->stop.reset();
  }
  if (found.manifests.empty()) return Verdict::kGoOn;
  const Manifest& newest = found.manifests.front();
  ASSIGN_OR_RETURN(const Job then, ParseJob(newest.job_json));
  ASSIGN_OR_RETURN(const uint64_t batches, BatchesOf(job_, newest.plan));
  ASSIGN_OR_RETURN(const uint64_t batches_then, BatchesOf(then, newest.plan));
  // A job that is complete may be given more epochs or steps, or another stop_when.
  if (newest.complete && batches <= batches_then && job_.stop_when == then.stop_when) {
    const std::string name = newest.name.ToString();
    const auto verified = verified_.find(name);
    if (verified == verified_.end()) return Verdict::kDoneIfSound;
    if (verified->second.ok()) return Verdict::kDone;
    found.unreadable.emplace(name, verified->second.message());
    return Verdict::kGoOn;
  }
  const uint64_t entered = MostEntered(newest);
  if (batches >= entered) return Verdict::kGoOn;
  RETURN_IF_ERROR(
      KeepJob(before, TooFewBatches(job_, batches, entered,
                                    absl::StrCat("in checkpoint ", newest.name.ToString()))));
  return Verdict::kGoOn;
}

bool DirStart::FindsDone() {
  absl::StatusOr<FoundInDir> found = LookInDir();
  if (!found.ok()) return false;
  const absl::StatusOr<Verdict> verdict = CheckFound(*found);
  return verdict.ok() && *verdict == Verdict::kDoneIfSound;
}

absl::StatusOr<uint64_t> DirStart::ClaimFirst() {
  ASSIGN_OR_RETURN(const uint64_t newest, NewestMentioned(files_, dir_));
  if (newest + 1 >= kGenerationMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir_, " holds the name of a generation ", newest,
                     " that no coordinator has claimed: there is no number after it"));
  }
  RETURN_IF_ERROR(Claim(files_, dir_, newest + 1, boot_id_));
  return newest + 1;
}

absl::StatusOr<DirStart::Verdict> DirStart::LookAndClaim(FoundInDir& found) {
  ASSIGN_OR_RETURN(found, LookInDir());
  ASSIGN_OR_RETURN(Verdict verdict, CheckFound(found));
  if (verdict != Verdict::kGoOn) return verdict;
  // After the claim, this second look sees everything that an earlier coordinator wrote before the
  // claim. Whatever an earlier coordinator writes later has no effect, because it checks the claims
  // after every write.
  ASSIGN_OR_RETURN(const uint64_t generation, ClaimFirst());
  ASSIGN_OR_RETURN(found, LookInDir());
  ASSIGN_OR_RETURN(verdict, CheckFound(found));
  found.generation = generation;
  return verdict;
}

// Verifies a checkpoint of a complete job: nobody else will read it again while the previous
// checkpoint could still take its place.
absl::Status DirStart::Verify(const std::string& checkpoint) {
  const absl::Status sound =
      VerifyCheckpoint(files_, CheckpointsDirectory(dir_) + "/" + checkpoint);
  if (!sound.ok() && !SaysDamaged(sound)) return sound;
  verified_[checkpoint] = sound;
  return absl::OkStatus();
}

// Moves the summary of an earlier run aside, because the job goes on. The summary of a finished job
// is kept under another name, since this run may fail.
absl::Status DirStart::SetSummaryAside() {
  const absl::StatusOr<std::string> text = files_.ReadWhole(Path(kSummaryName));
  const nlohmann::json summary = text.ok() ? JsonOf(*text) : nlohmann::json();
  if (summary.is_object() && summary.value("status", nlohmann::json()) == "done") {
    RETURN_IF_ERROR(files_.WriteAtomic(Path(kDoneSummaryName), *text));
  }
  return files_.RemoveTree(Path(kSummaryName));
}

// Removes the mark `complete` from the newest manifest of a job that is given more to do. Otherwise
// a ps or worker that loses its coordinator for a moment would read the mark and take the job for
// done.
absl::Status DirStart::TakeCompletionBack(FoundInDir& found) {
  if (found.manifests.empty() || !found.manifests.front().complete) return absl::OkStatus();
  Manifest& newest = found.manifests.front();
  const std::string name = newest.name.ToString();
  if (found.unreadable.contains(name)) return absl::OkStatus();
  newest.complete = false;
  return files_.WriteAtomic(
      absl::StrCat(CheckpointsDirectory(dir_), "/", name, "/", std::string(kManifestName)),
      ManifestToText(newest));
}

// INVALID_ARGUMENT if only a person can mend the directory.
absl::Status DirStart::MakeDir() {
  const absl::Status made = files_.MakeDirectories(CheckpointsDirectory(dir_));
  const bool ours =
      absl::IsNotFound(made) || absl::IsFailedPrecondition(made) || absl::IsAlreadyExists(made);
  if (made.ok()) return made;
  return absl::Status(ours ? absl::StatusCode::kInvalidArgument : made.code(),
                      absl::StrCat("--dir: ", std::string(made.message())));
}

absl::StatusOr<DirStart::Begun> DirStart::Begin() {
  RETURN_IF_ERROR(MakeDir());
  Begun begun;
  ASSIGN_OR_RETURN(Verdict verdict, LookAndClaim(begun.found));
  while (verdict == Verdict::kDoneIfSound) {
    RETURN_IF_ERROR(Verify(begun.found.manifests.front().name.ToString()));
    ASSIGN_OR_RETURN(verdict, LookAndClaim(begun.found));
  }
  if (verdict == Verdict::kDone) {
    RETURN_IF_ERROR(WriteDoneSummary(files_, dir_, begun.found.manifests.front()));
    begun.done = true;
    return begun;
  }
  // This process may have been suspended since its claim, while a newer coordinator claimed.
  RETURN_IF_ERROR(CheckNewestGeneration(files_, dir_, begun.found.generation));
  RETURN_IF_ERROR(TakeCompletionBack(begun.found));
  RETURN_IF_ERROR(SetSummaryAside());
  begun.job = job_;
  begun.untaken = untaken_;
  return begun;
}

}  // namespace paracord
