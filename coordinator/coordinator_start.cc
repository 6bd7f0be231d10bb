// The start of a coordinator: what it finds in DIR, whether the job may go on with that, and the
// first generation.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "coordinator/commit.h"
#include "coordinator/coordinator.h"
#include "coordinator/generations.h"
#include "coordinator/leftovers.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kRetryStorageMs = 1000;
constexpr int64_t kAgreeMs = 2000;

// Of storage at the start: room may be made, and a mount may answer again.
bool MayRecover(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsUnknown(status);
}

ExitCode ExitCodeFor(const absl::Status& status) {
  const bool configured = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  if (configured) return ExitCode::kConfiguration;
  if (absl::IsUnimplemented(status)) return ExitCode::kVersion;
  if (absl::IsAlreadyExists(status) || absl::IsAborted(status)) return ExitCode::kFenced;
  return ExitCode::kPeerLost;
}

// That a job is to train in all, if nothing stops it before.
absl::StatusOr<uint64_t> BatchesOf(const Job& job, const DataPlan& plan) {
  if (job.steps.has_value()) return *job.steps;
  RETURN_IF_ERROR(CheckEpochs(plan, job.epochs));
  return job.epochs * BatchesPerEpoch(plan);
}

// Of all partitions: the one that has come farthest goes no way back. A rejected batch is done.
uint64_t MostEntered(const Manifest& manifest) {
  uint64_t most = 0;
  for (const ManifestPartition& partition : manifest.partitions) {
    most = std::max(most, partition.applied + partition.rejected);
  }
  return most;
}

}  // namespace

absl::StatusOr<FoundInDir> Coordinator::LookInDir() {
  Files& files = environment_.files;
  FoundInDir found;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> states,
                   NumbersOf(files, options_.dir, kStatePrefix));
  if (!states.empty()) {
    const std::string path = Path(absl::StrCat(kStatePrefix, states.back()));
    ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(path));
    absl::StatusOr<JobState> state = ParseJobState(text, path);
    // What is of another version is sound, and going on without it would lose it.
    if (absl::IsUnimplemented(state.status())) return state.status();
    if (state.ok()) {
      found.job_state = *std::move(state);
    } else {
      found.damaged_state = std::string(state.status().message());
    }
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                   ListCheckpoints(files, CheckpointsDirectory(options_.dir)));
  absl::Status unread;
  for (const CheckpointName& name : checkpoints) {
    absl::StatusOr<Manifest> manifest =
        ReadManifest(files, CheckpointsDirectory(options_.dir) + "/" + name.ToString());
    if (manifest.ok()) {
      found.manifests.push_back(*std::move(manifest));
    } else {
      found.unreadable.emplace(name.ToString(), manifest.status().message());
      if (!SaysDamaged(manifest.status())) unread = manifest.status();
    }
  }
  // The storage may have recovered when the next life looks.
  if (found.manifests.empty()) RETURN_IF_ERROR(unread);
  return found;
}

absl::StatusOr<Coordinator::Verdict> Coordinator::CheckFound(FoundInDir& found) const {
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
    const bool same_end = job_before.stop_when == options_.job.stop_when;
    const absl::Status same =
        CheckResumable(std::move(job_before), options_.job, plan.split_batches());
    if (!same.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(same.message()),
          "; give it as it was, or begin anew: another --dir, or with paracord train --fresh"));
    }
    RETURN_IF_ERROR(BatchesOf(options_.job, plan).status());
    if (!same_end && found.job_state.has_value()) found.job_state->stop.reset();
  }
  if (found.manifests.empty()) return Verdict::kGoOn;
  const Manifest& newest = found.manifests.front();
  ASSIGN_OR_RETURN(const Job then, ParseJob(newest.job_json));
  ASSIGN_OR_RETURN(const uint64_t batches, BatchesOf(options_.job, newest.plan));
  ASSIGN_OR_RETURN(const uint64_t batches_then, BatchesOf(then, newest.plan));
  // A job that is complete may be given more epochs or steps, or another end.
  if (newest.complete && batches <= batches_then && options_.job.stop_when == then.stop_when) {
    const std::string name = newest.name.ToString();
    const auto verified = verified_.find(name);
    if (verified == verified_.end()) return Verdict::kDoneIfSound;
    if (verified->second.ok()) return Verdict::kDone;
    found.unreadable.emplace(name, verified->second.message());
    return Verdict::kGoOn;
  }
  const uint64_t entered = MostEntered(newest);
  if (batches >= entered) return Verdict::kGoOn;
  return absl::InvalidArgumentError(TooFewBatches(
      options_.job, batches, entered, absl::StrCat("in checkpoint ", newest.name.ToString())));
}

absl::StatusOr<uint64_t> Coordinator::ClaimFirst() {
  Files& files = environment_.files;
  ASSIGN_OR_RETURN(const uint64_t newest, NewestMentioned(files, options_.dir));
  if (newest + 1 >= kGenerationMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.dir, " holds the name of a generation ", newest,
                     " that no coordinator has claimed: there is no number after it"));
  }
  RETURN_IF_ERROR(Claim(files, options_.dir, newest + 1, boot_id_));
  return newest + 1;
}

void Coordinator::Start(std::string address) {
  address_ = std::move(address);
  TryToBegin();
}

void Coordinator::TryToBegin() {
  if (exiting_) return;
  const absl::Status begun = Begin();
  if (!begun.ok() && !exiting_) BeginLater(begun);
}

void Coordinator::BeginLater(const absl::Status& why) {
  const int64_t now_ms = environment_.loop.NowMs();
  const int64_t patience_ms = static_cast<int64_t>(options_.job.timeouts.start_s * 1000);
  const int64_t since_ms = storage_awaited_since_ms_.value_or(now_ms);
  if (!MayRecover(why) || now_ms - since_ms >= patience_ms) {
    exiting_ = true;
    exit_(static_cast<int>(ExitCodeFor(why)), std::string(why.message()));
    return;
  }
  if (!storage_awaited_since_ms_.has_value()) {
    log_.Warn("waits for the storage, at most {} s: {}", patience_ms / 1000,
              std::string(why.message()));
    PROBE("coordinator.storage.awaited");
    storage_awaited_since_ms_ = now_ms;
  }
  storage_problem_ = std::string(why.message());
  environment_.loop.PostAfter(kRetryStorageMs, [this, alive = alive_] {
    if (*alive) TryToBegin();
  });
}

// Nobody will read it again who could go on from the one before. It may be large: not on the loop.
void Coordinator::Verify(const std::string& checkpoint) {
  const auto sound = std::make_shared<absl::Status>();
  environment_.executor.Run(
      [sound, &files = environment_.files,
       directory = CheckpointsDirectory(options_.dir) + "/" + checkpoint] {
        *sound = VerifyCheckpoint(files, directory);
      },
      [this, alive = alive_, sound, checkpoint] {
        if (!*alive || exiting_) return;
        if (!sound->ok() && !SaysDamaged(*sound)) return BeginLater(*sound);
        verified_[checkpoint] = *sound;
        TryToBegin();
      });
}

// What an earlier run said of its end is no longer true, but a result that was finished is kept:
// this run may come to nothing.
absl::Status Coordinator::SetSummaryAside() {
  Files& files = environment_.files;
  const absl::StatusOr<std::string> text = files.ReadWhole(Path(kSummaryName));
  const nlohmann::json summary = text.ok() ? JsonOf(*text) : nlohmann::json();
  if (summary.is_object() && summary.value("status", nlohmann::json()) == "done") {
    RETURN_IF_ERROR(files.WriteAtomic(Path(kDoneSummaryName), *text));
  }
  return files.RemoveTree(Path(kSummaryName));
}

// A complete job is given more to do. To ps and workers whose coordinator is away for a moment it
// would be over all the same, by its newest checkpoint.
absl::Status Coordinator::TakeCompletionBack(FoundInDir& found) const {
  if (found.manifests.empty() || !found.manifests.front().complete) return absl::OkStatus();
  Manifest& newest = found.manifests.front();
  const std::string name = newest.name.ToString();
  if (found.unreadable.contains(name)) return absl::OkStatus();
  newest.complete = false;
  return environment_.files.WriteAtomic(
      absl::StrCat(CheckpointsDirectory(options_.dir), "/", name, "/", std::string(kManifestName)),
      ManifestToText(newest));
}

absl::Status Coordinator::Begin() {
  Files& files = environment_.files;
  RETURN_IF_ERROR(files.MakeDirectories(CheckpointsDirectory(options_.dir)));
  ASSIGN_OR_RETURN(FoundInDir found, LookInDir());
  ASSIGN_OR_RETURN(Verdict verdict, CheckFound(found));
  if (verdict == Verdict::kGoOn) {
    // What an earlier coordinator wrote after the look above is seen by the one below, and what it
    // writes later it does not act on, because it finds our claim then.
    ASSIGN_OR_RETURN(const uint64_t generation, ClaimFirst());
    if (!MUTANT("claim_after_look")) {
      ASSIGN_OR_RETURN(found, LookInDir());
    }
    ASSIGN_OR_RETURN(verdict, CheckFound(found));
    found.generation = generation;
  }
  if (verdict == Verdict::kDoneIfSound) {
    Verify(found.manifests.front().name.ToString());
    return absl::OkStatus();
  }
  if (verdict == Verdict::kDone) {
    RETURN_IF_ERROR(WriteDoneSummary(files, options_.dir, found.manifests.front()));
    exiting_ = true;
    exit_(static_cast<int>(ExitCode::kDone), "the job is done already");
    return absl::OkStatus();
  }
  // This process may have been stopped since its claim, for longer than the next one took.
  RETURN_IF_ERROR(CheckNewestGeneration(files, options_.dir, found.generation));
  RETURN_IF_ERROR(TakeCompletionBack(found));
  RETURN_IF_ERROR(SetSummaryAside());
  for (const Manifest& manifest : found.manifests) {
    const std::string name = manifest.name.ToString();
    if (found.unreadable.contains(name)) continue;
    log_.Info("going on from checkpoint {}", name);
    break;
  }
  environment_.executor.Run(
      [&files, dir = CheckpointsDirectory(options_.dir), generation = found.generation] {
        RemoveLeftovers(files, dir, generation);
      },
      [] {});
  CoreOptions core{.job = options_.job,
                   .ps_addresses = options_.ps_addresses,
                   .workers = options_.workers,
                   .boot_id = boot_id_,
                   .new_run_id = environment_.random.NextId(),
                   .dir = options_.dir,
                   .agree_ms = kAgreeMs,
                   .host = options_.host,
                   .started_unix_ms = environment_.loop.UnixMs()};
  for (const auto& ps : core.ps_addresses) links_.push_back(environment_.network.Dial(ps));
  if (options_.charts) {
    events_ = std::make_shared<EventFile>(files, Path("tensorboard"), found.generation);
  }
  core_ = std::make_unique<CoordinatorCore>(std::move(core), std::move(found),
                                            environment_.loop.NowMs());
  evaluations_charted_ = core_->evaluations();
  if (!address_.empty()) {
    (void)files.WriteAtomic(Path(kAddressName), address_ + "\n");
  }
  Tick();
  return absl::OkStatus();
}

}  // namespace paracord
