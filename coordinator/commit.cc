#include "coordinator/commit.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
#include "nlohmann/json.hpp"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// An older coordinator may have completed the job after this one read DIR; the job is done then.
absl::Status CheckNotCompleted(Files& files, const std::string& checkpoints,
                               const CommitRound& round) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(files, checkpoints));
  if (names.empty()) return absl::OkStatus();
  const CheckpointName& newest = names.front();
  const auto order = [](const CheckpointName& n) { return std::pair(n.generation, n.round); };
  if (order(newest) <= order(round.newest_known) || newest == round.manifest.name) {
    return absl::OkStatus();
  }
  const auto manifest = ReadManifest(files, checkpoints + "/" + newest.ToString());
  if (!manifest.ok() || !manifest->complete) return absl::OkStatus();
  PROBE("coordinator.completed_by_other");
  return absl::AlreadyExistsError(
      absl::StrCat("another coordinator has completed the job: ", newest.ToString()));
}

// An existing manifest with the same contents is ours: an earlier try got no answer.
absl::Status CommitObject(Files& files, const std::string& directory, const Manifest& manifest) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  const std::string text = ManifestToText(manifest);
  FAILPOINT("coordinator.commit.begin");
  const absl::Status put = files.CreateExclusive(path, text);
  if (absl::IsAlreadyExists(put)) {
    ASSIGN_OR_RETURN(const std::string there, files.ReadWhole(path));
    if (there != text) return absl::AbortedError(path + " is another coordinator's");
  } else {
    RETURN_IF_ERROR(put);
  }
  FAILPOINT("coordinator.commit.done");
  const std::string ps_files = PsFilesDirectory(directory);
  const absl::Status removed = files.Open(absl::StrCat(ps_files, "/", kRemovedName)).status();
  if (absl::IsNotFound(removed)) return absl::OkStatus();
  RETURN_IF_ERROR(removed);
  PROBE("coordinator.commit.removed");
  return absl::AbortedError(ps_files + " has been removed by a newer coordinator");
}

}  // namespace

absl::Status WriteDoneSummary(Files& files, const std::string& dir, const Manifest& complete) {
  nlohmann::json summary = complete.summary;
  if (summary.is_object()) summary.erase("metric_names");
  return files.WriteAtomic(absl::StrCat(dir, "/", kSummaryName), TextOf(summary, 2) + "\n");
}

absl::Status WriteLastSummary(Files& files, const std::string& dir, uint64_t generation,
                              const std::string& contents) {
  RETURN_IF_ERROR(CheckNewestGeneration(files, dir, generation));
  RETURN_IF_ERROR(files.WriteAtomic(absl::StrCat(dir, "/", kSummaryName), contents));
  const absl::Status led = CheckNewestGeneration(files, dir, generation);
  if (!absl::IsAborted(led)) return absl::OkStatus();
  const std::string checkpoints = CheckpointsDirectory(dir);
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(files, checkpoints));
  if (names.empty()) return led;
  const auto manifest = ReadManifest(files, checkpoints + "/" + names.front().ToString());
  if (!manifest.ok() || !manifest->complete) return led;
  const absl::Status restored = WriteDoneSummary(files, dir, *manifest);
  if (restored.ok()) return led;
  const std::string why = absl::StrCat(
      dir, "/", kSummaryName, " is no longer true, because a newer coordinator has completed the ",
      "job in checkpoint ", manifest->name.ToString(),
      ", and its summary could not be written again: ", std::string(restored.message()),
      ": another start of the coordinator writes it");
  Logger("coordinator").Error("{}", why);
  return absl::AbortedError(absl::StrCat(std::string(led.message()), "; ", why));
}

absl::Status Commit(Files& files, const std::string& checkpoints, const CommitRound& round) {
  RETURN_IF_ERROR(CheckNotCompleted(files, checkpoints, round));
  const Manifest& manifest = round.manifest;
  const std::string made = checkpoints + "/" + round.directory;
  const std::string final = checkpoints + "/" + manifest.name.ToString();
  if (PsFilesDirectory(final) != final) return CommitObject(files, final, manifest);
  FAILPOINT("coordinator.commit.begin");
  if (!absl::IsNotFound(files.List(made).status())) {
    RETURN_IF_ERROR(files.SyncDirectory(made));
    RETURN_IF_ERROR(files.Rename(made, final));
  } else {  // an earlier try has renamed it
    RETURN_IF_ERROR(files.SyncDirectory(final));
  }
  RETURN_IF_ERROR(files.SyncDirectory(checkpoints));
  FAILPOINT("coordinator.commit.renamed");
  RETURN_IF_ERROR(
      files.WriteAtomic(final + "/" + std::string(kManifestName), ManifestToText(manifest)));
  FAILPOINT("coordinator.commit.done");
  return absl::OkStatus();
}

}  // namespace paracord
