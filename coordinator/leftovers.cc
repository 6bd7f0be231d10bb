#include "coordinator/leftovers.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// An error counts as one: what cannot be looked at stays.
bool HasManifest(Files& files, const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> inside = files.List(directory);
  return !inside.ok() || std::find(inside->begin(), inside->end(), kManifestName) != inside->end();
}

// Nobody else knows this name, so what is seen in it stays true. A manifest: its coordinator was
// just ahead of us, and it is a checkpoint.
void RemoveTaken(Files& files, const std::string& checkpoints, const std::string& name) {
  const std::string taken = absl::StrCat(checkpoints, "/", kLeftoverPrefix, name);
  if (!HasManifest(files, taken)) {
    PROBE("coordinator.leftover.removed");
    (void)files.RemoveTree(taken);
  } else if (ParseCheckpointName(name).has_value()) {
    if (files.Rename(taken, checkpoints + "/" + name).ok()) (void)files.SyncDirectory(checkpoints);
  }
}

}  // namespace

void RemoveUncommitted(Files& files, const std::string& checkpoints, const std::string& name) {
  const std::string path = checkpoints + "/" + name;
  if (HasManifest(files, path)) return;
  const std::string taken = absl::StrCat(checkpoints, "/", kLeftoverPrefix, name);
  if (files.Rename(path, taken).ok()) RemoveTaken(files, checkpoints, name);
}

void RemoveLeftovers(Files& files, const std::string& checkpoints, uint64_t generation) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(checkpoints);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kLeftoverPrefix)) {  // by one that died here
      RemoveTaken(files, checkpoints, name.substr(std::string_view(kLeftoverPrefix).size()));
      continue;
    }
    const std::optional<uint64_t> theirs = GenerationOf(name);
    if (theirs.has_value() && *theirs < generation) RemoveUncommitted(files, checkpoints, name);
  }
}

}  // namespace paracord
