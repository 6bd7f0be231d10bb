#include "coordinator/leftovers.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// Removes a renamed directory: no other process knows the new name, so the contents no longer
// change. A manifest inside means that its coordinator committed just before the rename: the
// checkpoint gets its name back.
void RemoveTaken(Files& files, const std::string& checkpoints, const std::string& name) {
  const std::string taken = absl::StrCat(checkpoints, "/", kLeftoverPrefix, name);
  if (!IsCheckpoint(files, taken)) {
    PROBE("coordinator.leftover.removed");
    (void)files.RemoveTree(taken);
  } else if (ParseCheckpointName(name).has_value()) {
    if (files.Rename(taken, checkpoints + "/" + name).ok()) (void)files.SyncDirectory(checkpoints);
  }
}

// Whether the checkpoint of a round in an object store has a manifest.
absl::StatusOr<bool> HasManifest(Files& files, const std::string& checkpoints,
                                 const std::string& ps_files) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(checkpoints));
  for (const std::string& name : names) {
    const std::string directory = checkpoints + "/" + name;
    if (directory == ps_files || PsFilesDirectory(directory) != ps_files) continue;
    const absl::Status there = files.Open(absl::StrCat(directory, "/", kManifestName)).status();
    if (!absl::IsNotFound(there)) return there.ok() ? absl::StatusOr<bool>(true) : there;
  }
  return false;
}

// Removes a round "round-g3-r17" from an object store, unless its checkpoint "step-...-g3-r17" was
// committed. A manifest written before the mark REMOVED makes a checkpoint; one written later does
// not.
absl::Status RemoveRound(Files& files, const std::string& checkpoints, const std::string& round) {
  const std::string ps_files = checkpoints + "/" + round;
  const absl::StatusOr<std::vector<std::string>> inside = files.List(ps_files);
  if (absl::IsNotFound(inside.status())) return absl::OkStatus();
  RETURN_IF_ERROR(inside.status());
  if (*inside == std::vector<std::string>{kRemovedName}) return files.AbandonUnfinished(ps_files);
  const bool marked = std::ranges::count(*inside, kRemovedName) != 0;
  if (!marked) {
    ASSIGN_OR_RETURN(bool committed, HasManifest(files, checkpoints, ps_files));
    if (committed) return absl::OkStatus();
    const std::string mark = absl::StrCat(ps_files, "/", kRemovedName);
    RETURN_IF_ERROR(files.WriteAtomic(mark, ""));
    FAILPOINT("coordinator.leftover.marked");
    ASSIGN_OR_RETURN(committed, HasManifest(files, checkpoints, ps_files));
    if (committed) {
      PROBE("coordinator.leftover.committed");
      return files.RemoveTree(mark);
    }
  }
  PROBE("coordinator.leftover.removed");
  absl::Status removed;
  for (const std::string& name : *inside) {
    if (name != kRemovedName) removed.Update(files.RemoveTree(ps_files + "/" + name));
  }
  removed.Update(files.AbandonUnfinished(ps_files));
  return removed;
}

// Returns the round of a checkpoint or round in an object store; "" in a file system.
std::string RoundOf(const std::string& checkpoints, const std::string& name) {
  if (SchemeOf(checkpoints).empty()) return "";
  const std::string ps_files = PsFilesDirectory(checkpoints + "/" + name);
  return ps_files.substr(ps_files.rfind('/') + 1);
}

}  // namespace

absl::Status RemoveCheckpoint(Files& files, const std::string& checkpoints, const std::string& name,
                              bool& ended) {
  ended = false;
  const std::string round = RoundOf(checkpoints, name);
  if (round == name) return RemoveRound(files, checkpoints, round);
  // Half a checkpoint must not look like a whole one.
  const std::string path = checkpoints + "/" + name;
  RETURN_IF_ERROR(files.RemoveTree(path + "/" + std::string(kManifestName)));
  const absl::Status synced = files.SyncDirectory(path);
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  ended = true;
  absl::Status removed;
  if (!round.empty()) removed = files.RemoveTree(checkpoints + "/" + round);
  removed.Update(files.RemoveTree(path));
  return removed;
}

namespace {

void RemoveHalf(Files& files, const std::string& checkpoints, const std::string& name) {
  if (const std::string round = RoundOf(checkpoints, name); !round.empty()) {
    (void)RemoveRound(files, checkpoints, round);
    return;
  }
  const std::string path = checkpoints + "/" + name;
  if (IsCheckpoint(files, path)) return;
  const std::string taken = absl::StrCat(checkpoints, "/", kLeftoverPrefix, name);
  if (files.Rename(path, taken).ok()) RemoveTaken(files, checkpoints, name);
}

}  // namespace

absl::StatusOr<bool> RemoveUncommitted(Files& files, const std::string& checkpoints,
                                       const std::string& name) {
  RemoveHalf(files, checkpoints, name);
  const std::string path = checkpoints + "/" + name;
  if (!IsCheckpoint(files, path)) return false;
  // The failed step may have been a sync.
  RETURN_IF_ERROR(files.SyncDirectory(path));
  RETURN_IF_ERROR(files.SyncDirectory(checkpoints));
  RETURN_IF_ERROR(files.Open(absl::StrCat(path, "/", kManifestName)).status());
  return true;
}

void RemoveLeftovers(Files& files, const std::string& checkpoints, uint64_t generation) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(checkpoints);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kLeftoverPrefix)) {  // a dead coordinator renamed it
      RemoveTaken(files, checkpoints, name.substr(std::string_view(kLeftoverPrefix).size()));
      continue;
    }
    const std::optional<uint64_t> theirs = GenerationOf(name);
    if (!theirs.has_value() || *theirs >= generation) continue;
    const std::string path = checkpoints + "/" + name;
    if (PsFilesDirectory(path) == path || !IsCheckpoint(files, path)) {
      RemoveHalf(files, checkpoints, name);
    }
  }
}

}  // namespace paracord
