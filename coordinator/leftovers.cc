#include "coordinator/leftovers.h"

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// Nobody else knows this name, so what is seen in it stays true. A manifest: its coordinator was
// just ahead of us, and it is a checkpoint.
void RemoveTaken(Files& files, const std::string& checkpoints, const std::string& name) {
  const std::string taken = absl::StrCat(checkpoints, "/", kLeftoverPrefix, name);
  if (!IsCheckpoint(files, taken)) {
    PROBE("coordinator.leftover.removed");
    (void)files.RemoveTree(taken);
  } else if (ParseCheckpointName(name).has_value()) {
    if (files.Rename(taken, checkpoints + "/" + name).ok()) (void)files.SyncDirectory(checkpoints);
  }
}

}  // namespace

void RemoveUncommitted(Files& files, const std::string& checkpoints, const std::string& name) {
  const std::string path = checkpoints + "/" + name;
  if (IsCheckpoint(files, path)) return;
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
