#include "coordinator/checkpoint_remover.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_text.h"
#include "coordinator/leftovers.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

std::pair<uint64_t, uint64_t> Order(const CheckpointName& name) {
  return {name.generation, name.round};
}

}  // namespace

CheckpointRemover::CheckpointRemover(Files& files, std::string checkpoints)
    : files_(files), checkpoints_(std::move(checkpoints)) {}

absl::Status CheckpointRemover::RemoveOne(Old& old) {
  const absl::StatusOr<Manifest> manifest =
      ReadManifest(files_, absl::StrCat(checkpoints_, "/", old.name));
  const std::optional<CheckpointName> name = ParseCheckpointName(old.name);
  if (manifest.ok()) old.base = manifest->base;
  if (manifest.ok() || !absl::IsNotFound(manifest.status())) old.base_known = manifest.ok();
  bool ended = false;
  const bool needed = needed_.contains(old.name) || (name.has_value() && Order(*name) < needed_to_);
  const absl::Status removed =
      needed ? absl::OkStatus() : RemoveCheckpoint(files_, checkpoints_, old.name, ended);
  if (removed.ok() && !needed) {
    // A ps may still have been writing: in an object store its file can appear after the removal.
    const bool may_come = !name.has_value() && !SchemeOf(checkpoints_).empty();
    if (may_come && !std::exchange(old.removed, true)) again_.push_back(old);
    return removed;
  }
  if (!ended) {
    needed_.insert(old.base);
    if (name.has_value() && !old.base_known) needed_to_ = std::max(needed_to_, Order(*name));
  }
  again_.push_back(old);
  return removed;
}

std::vector<absl::Status> CheckpointRemover::Remove(const std::vector<std::string>& names) {
  // Retried checkpoints first; no new name is an increment of a retried base.
  std::vector<Old> olds = std::exchange(again_, {});
  const size_t tried = olds.size();
  for (const std::string& name : names) olds.push_back({.name = name, .base = ""});
  std::vector<absl::Status> errors;
  needed_.clear();
  needed_to_ = {};
  for (size_t i = 0; i < olds.size(); ++i) {
    const absl::Status removed = RemoveOne(olds[i]);
    if (removed.ok() || i < tried) continue;
    errors.emplace_back(
        removed.code(),
        absl::StrCat(olds[i].name,
                     " cannot be removed, and is tried again with the next: ", Text(removed)));
  }
  // Dropping from the end is safe: a retried increment stands before its base.
  again_.resize(std::min(again_.size(), kAgainMax));
  return errors;
}

}  // namespace paracord
