// The start of a coordinator on its loop: waits for the result of DirStart, then leads the job.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/probe.h"
#include "coordinator/coordinator.h"
#include "coordinator/dir_start.h"
#include "coordinator/leftovers.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kRetryStorageMs = 1000;

// Whether a storage error at the start may pass: space may be freed, a mount may answer again or
// become writable, a permission may be granted.
bool MayRecover(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsPermissionDenied(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnknown(status);
}

ExitCode ExitCodeFor(const absl::Status& status) {
  const bool configured = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  if (configured) return ExitCode::kConfiguration;
  if (absl::IsUnimplemented(status)) return ExitCode::kVersion;
  if (absl::IsAlreadyExists(status) || absl::IsAborted(status)) return ExitCode::kFenced;
  return ExitCode::kPeerLost;
}

}  // namespace

void Coordinator::Start(std::string address) {
  address_ = std::move(address);
  start_ = std::make_shared<DirStart>(environment_.files, options_.dir, options_.job, boot_id_,
                                      options_.accept_changes, options_.keep_job);
  TryToBegin();
}

void Coordinator::TryToBegin() {
  if (exiting_) return;
  const auto begun = std::make_shared<absl::StatusOr<DirStart::Begun>>();
  environment_.executor.Run([start = start_, begun] { *begun = start->Begin(); },
                            gate_.Enter([this, begun] {
                              if (exiting_) return;
                              if (!begun->ok()) return BeginLater(begun->status());
                              Lead(**std::move(begun));
                            }));
}

void Coordinator::BeginLater(const absl::Status& why) {
  const int64_t now_ms = environment_.loop.NowMs();
  const int64_t patience_ms = static_cast<int64_t>(options_.job.timeouts.start_s * 1000);
  const int64_t since_ms = storage_awaited_since_ms_.value_or(now_ms);
  if (!MayRecover(why) || now_ms - since_ms >= patience_ms) {
    LeaveWith({static_cast<int>(ExitCodeFor(why)), std::string(why.message())});
    return;
  }
  if (!storage_awaited_since_ms_.has_value()) {
    log_.Warn("waits for the storage, at most {} s: {}", patience_ms / 1000,
              std::string(why.message()));
    PROBE("coordinator.storage.awaited");
    storage_awaited_since_ms_ = now_ms;
  }
  storage_problem_ = std::string(why.message());
  environment_.loop.PostAfter(kRetryStorageMs, gate_.Enter([this] { TryToBegin(); }));
}

void Coordinator::Lead(DirStart::Begun begun) {
  if (begun.done) {
    LeaveWith({static_cast<int>(ExitCode::kDone), "the job is done already"});
    return;
  }
  FoundInDir& found = begun.found;
  options_.job = std::move(begun.job);
  if (!begun.untaken.empty()) {
    Log said{Log::Level::kWarning,
             absl::StrCat("the job goes on as it is in its directory (--keep-job), and these keys "
                          "of the job file are not taken: ",
                          absl::StrJoin(begun.untaken, "; "))};
    CarryOut(said);
  }
  for (const Manifest& manifest : found.manifests) {
    const std::string name = manifest.name.ToString();
    if (found.unreadable.contains(name)) continue;
    log_.Info("going on from checkpoint {}", name);
    break;
  }
  CleanUp(found.generation);
  CoreOptions core{.job = options_.job,
                   .ps_addresses = options_.ps_addresses,
                   .workers = options_.workers,
                   .nodes = options_.nodes,
                   .boot_id = boot_id_,
                   .new_run_id = environment_.random.NextId(),
                   .proof_key = environment_.random.NextId() + environment_.random.NextId(),
                   .dir = options_.dir,
                   .agree_ms = options_.agree_ms,
                   .host = options_.host,
                   .insecure = options_.insecure,
                   .untaken = std::move(begun.untaken),
                   .started_unix_ms = environment_.loop.UnixMs()};
  if (options_.charts) {
    events_ = std::make_shared<EventFile>(environment_.files, options_.dir + "/tensorboard",
                                          found.generation);
  }
  core_ = std::make_unique<CoordinatorCore>(std::move(core), std::move(found),
                                            environment_.loop.NowMs());
  evaluations_charted_ = core_->View().evaluations.told().size();
  Tick();
}

// Runs before any work that the core asks of the executor.
void Coordinator::CleanUp(uint64_t generation) {
  environment_.executor.Run(
      [&files = environment_.files, dir = options_.dir, generation, address = address_] {
        if (!address.empty()) {
          (void)files.WriteAtomic(absl::StrCat(dir, "/", kAddressName), address + "\n");
        }
        RemoveLeftovers(files, CheckpointsDirectory(dir), generation);
      },
      [] {});
}

}  // namespace paracord
